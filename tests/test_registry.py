import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from beliefrag.errors import SettingsError
from beliefrag.registry import NoOptions, Registry, TypicalCost, explain_mistake

GROUP = "beliefrag.test_shapes"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package of one module, with an entry point of our group."""

    def install(package: str, name: str, code: str) -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {package}_module\n")
        (folder / f"{package}_module.py").write_text(code)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, f"{package}_module", raising=False)

    return install


@dataclass(frozen=True, slots=True)
class Square:
    side: int = 2
    scale: float = 1.0
    filled: bool = False

    def __post_init__(self) -> None:
        if self.side < 1:
            raise ValueError(f"a side is at least 1, not {self.side}")


def shapes() -> Registry[object, float]:
    registry: Registry[object, float] = Registry("shape", GROUP, {})
    registry.register("square", title="Square", summary="Four sides.", cost=TypicalCost(1, 2, 3))(Square)

    @registry.register("dot", title="Dot", summary="No sides.", needs_calibration=True)
    def dot(options: NoOptions, size: float) -> object:
        return ("dot", size)

    return registry


def test_a_class_is_its_own_options_and_a_function_gets_options_and_inputs() -> None:
    registry = shapes()
    assert registry.choose("square:side=3").build(1.0) == Square(3)
    assert registry.choose("dot").build(4.0) == ("dot", 4.0)
    assert registry["dot"].needs_calibration and not registry["square"].needs_calibration
    assert registry["square"].cost == TypicalCost(1, 2, 3) and registry["dot"].cost is None


@dataclass(frozen=True, slots=True)
class Palette:
    colours: tuple[str, ...] = ("red",)


def test_a_list_is_typed_with_plus_signs() -> None:
    registry: Registry[object, float] = Registry("palette", GROUP, {})
    registry.register("palette", title="Palette", summary="Colours.")(Palette)
    chosen = registry.choose("palette:colours=red+blue")
    assert chosen.options == Palette(("red", "blue"))
    assert str(chosen) == "palette:colours=red+blue"
    assert registry.choose("palette", {"palette": {"colours": ["blue"]}}).options == Palette(("blue",))
    assert "colours: tuple[str, ...]" in registry["palette"].describe_options()[0]


def test_what_is_typed_goes_before_the_settings_file_and_that_before_the_defaults() -> None:
    chosen = shapes().choose("square:side=3", {"square": {"side": 5, "scale": 0.5}, "dot": {}})
    assert chosen.options == Square(3, 0.5)
    assert str(chosen) == "square:side=3,scale=0.5"
    assert str(shapes().choose("square")) == "square"


def test_texts_are_read_as_the_type_of_their_option() -> None:
    assert shapes().choose("square: side = 3, scale=2, filled=true").options == Square(3, 2.0, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("square:size=3", ["'square'", "'size'", "side: int = 2"]),
        ("square:side=wide", ["side='wide'", "integer"]),
        ("square:side=0", ["side=0", "at least 1"]),
        ("square:side", ["'side'", "key=value"]),
        ("dot:side=1", ["'side'", "no options"]),
        ("sqare", ["'sqare'", "Did you mean square?", "dot", GROUP]),
        ("", ["''", "square, dot"]),
    ],
)
def test_what_cannot_be_used_is_told_with_the_value_and_what_is_known(text: str, said: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        shapes().choose(text)
    assert all(each in str(caught.value) for each in said), str(caught.value)


def test_a_title_of_something_that_is_not_installed_is_its_name() -> None:
    assert shapes().title("square") == "Square"
    assert shapes().title("survey") == "survey"


_REGISTERS = """
from dataclasses import dataclass
import shapes_under_test
@shapes_under_test.REGISTRY.register("{name}", title="Star", summary="A star.")
@dataclass(frozen=True)
class Star:
    points: int = 5
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[object, float]:
    """A registry that the installed modules can import."""
    (tmp_path / "shapes_under_test.py").write_text(
        f"from beliefrag.registry import Registry\nREGISTRY = Registry('shape', {GROUP!r}, {{'own': 'own_shape'}})\n"
    )
    (tmp_path / "own_shape.py").write_text(_REGISTERS.format(name="own"))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("shapes_under_test", "own_shape"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import shapes_under_test  # type: ignore[import-not-found]

    found: Registry[object, float] = shapes_under_test.REGISTRY
    return found


def test_another_package_registers_through_an_entry_point(install: Install, registry: Registry[object, float]) -> None:
    install("stars", "star", _REGISTERS.format(name="star"))
    assert list(registry) == ["own", "star"] and "star" in registry
    assert "stars_module" not in sys.modules, "listing names imports nothing"
    assert registry.choose("star:points=6").changed_options() == {"points": 6}


def test_a_broken_package_is_told_in_one_line_and_the_others_work(
    install: Install, registry: Registry[object, float], caplog: pytest.LogCaptureFixture
) -> None:
    install("broken", "bad", "raise ImportError('no module\\nnamed paint')")
    install("silent", "quiet", "")
    with pytest.raises(SettingsError, match=r"'bad' .*broken .*no module named paint.*uninstall broken"):
        registry["bad"]
    with caplog.at_level(logging.WARNING):
        assert [each.name for each in registry.usable()] == ["own"]
        assert [each.name for each in registry.usable()] == ["own"]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 and all("\n" not in line for line in lines)
    assert "broken" in lines[0] and "silent" in lines[1] and "does not register it" in lines[1]


def test_a_mistake_names_the_package_whose_extension_made_it(
    install: Install, registry: Registry[object, float]
) -> None:
    code = (
        "import shapes_under_test\n"
        "@shapes_under_test.REGISTRY.register('faulty', title='Faulty', summary='Fails.')\n"
        "def build(options, inputs):\n    return inputs.nothing\n"
    )
    install("unlucky", "faulty", code)
    with pytest.raises(AttributeError) as caught:
        registry.choose("faulty").build(1.0)
    message, remedy = explain_mistake(caught.value)
    assert "unlucky_module" in message and "AttributeError" in message and "--debug" in remedy
    assert explain_mistake(ValueError("ours"))[0] == "Internal error, ValueError: ours."


def test_packages_that_want_the_same_name_are_named(
    install: Install, registry: Registry[object, float], caplog: pytest.LogCaptureFixture
) -> None:
    install("one", "star", _REGISTERS.format(name="star"))
    install("two", "star", _REGISTERS.format(name="star"))
    install("three", "own", _REGISTERS.format(name="own"))
    with caplog.at_level(logging.WARNING), pytest.raises(SettingsError, match=r"(one and two|two and one).*'star'"):
        registry["star"]
    assert "three" in caplog.text and "ours is used" in caplog.text
    assert registry["own"].title == "Star"
