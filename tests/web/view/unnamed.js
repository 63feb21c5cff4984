// Controls and pictures that a screen reader would have no name for.
() =>
  [...document.querySelectorAll("button, a, input, select, [role=img]")]
    .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length))
    .map((each) => each.outerHTML)
