"""A picture within the page: SVG elements with ids of their own, whose black, white and grey follow the page's colours.

Style attributes become attributes of presentation: the page's policy forbids the former, its style sheet overrides the latter.
"""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
REFERENCE = re.compile(r"url\(#([^)]*)\)")
PIXELS = {"pt": 4 / 3, "px": 1.0, "": 1.0}
GREY = re.compile(r'(fill|stroke)="(#(..)\3\3)"')
LEFT_OUT = ("metadata", "style")
"""Elements without which the picture is the same here: the style of all elements is in the page's own style sheet."""


def inline(svg: bytes, prefix: str, label: str) -> str:
    """The `<svg>` element for the page, named by `label`; `prefix` begins its ids and is that of no other picture."""
    root = ElementTree.fromstring(NOT_XML.sub("\ufffd", svg.decode()))
    for element in list(root.iter()):
        _clean(element, prefix)
        for child in [child for child in element if _local(child.tag) in LEFT_OUT]:
            element.remove(child)
    width, unit = re.findall(r"^([\d.]+)(\w*)$", root.attrib["width"])[0]
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "width": f"{float(width) * PIXELS[unit]:g}",
        "role": "img",
        "aria-label": label,
    }
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}  # matplotlib's, of all elements
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _clean(element: Element, prefix: str) -> None:
    """Attributes without namespaces, line breaks and styles; ids and what refers to them begin with the prefix."""
    element.tag = _local(element.tag)
    attributes = {_local(name): " ".join(value.split()) for name, value in element.attrib.items()}
    style = attributes.pop("style", "")
    attributes |= {name.strip(): value.strip() for name, _, value in (one.partition(":") for one in style.split(";")) if value}
    element.attrib = {name: _referring(name, value, prefix) for name, value in attributes.items()}
    for place in ("text", "tail"):
        if not (getattr(element, place) or "").strip():
            setattr(element, place, None)


def _referring(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    return REFERENCE.sub(rf"url(#{prefix}-\1)", value)


def dark_rules(page: str, paper: tuple[int, int, int], pen: tuple[int, int, int]) -> str:
    """CSS that turns the greys of all pictures in the page: black to `pen`, white to `paper`, others in between."""
    rules = []
    for name, colour, level in sorted(set(GREY.findall(page))):
        share = int(level, 16) / 255
        turned = "".join(f"{round(dark + share * (light - dark)):02x}" for dark, light in zip(pen, paper, strict=True))
        rules.append(f'[{name}="{colour}"] {{ {name}: #{turned} }}')  # with `svg` before it, it would not match within <use>
    return "\n".join(rules)
