// Texts on the page whose contrast is below what WCAG AA asks of small text.
() => {
  const parse = (colour) => {
    const numbers = colour.match(/[\d.]+/g).map(Number);
    // color(srgb ...) counts from 0 to 1, rgb(...) to 255.
    const scale = colour.startsWith("color(") ? 255 : 1;
    return { rgb: numbers.slice(0, 3).map((value) => value * scale), a: numbers[3] ?? 1 };
  };
  const light = ({ rgb }) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.a > 0.9) return colour;
    }
    return parse("rgb(255, 255, 255)");
  };
  const left = ".aside, .skip, [disabled], .off, noscript, option, datalist, title";
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest(left) || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(element.closest("svg") ? style.fill : style.color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${element.tagName} "${element.textContent.slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return poor;
}
