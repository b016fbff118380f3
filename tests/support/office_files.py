"""Small office files for tests, put together from the XML of their parts."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

_SCHEMAS = "http://schemas.openxmlformats.org/"
_RELATION = f"{_SCHEMAS}officeDocument/2006/relationships"
_NAMESPACES = {
    "w": f"{_SCHEMAS}wordprocessingml/2006/main",
    "p": f"{_SCHEMAS}presentationml/2006/main",
    "r": _RELATION,
    "m": f"{_SCHEMAS}officeDocument/2006/math",
    "a": f"{_SCHEMAS}drawingml/2006/main",
    "c": f"{_SCHEMAS}drawingml/2006/chart",
    "dgm": f"{_SCHEMAS}drawingml/2006/diagram",
    "wp": f"{_SCHEMAS}drawingml/2006/wordprocessingDrawing",
    "pic": f"{_SCHEMAS}drawingml/2006/picture",
    "mc": f"{_SCHEMAS}markup-compatibility/2006",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "w14": "http://schemas.microsoft.com/office/word/2010/wordml",
    "v": "urn:schemas-microsoft-com:vml",
    "o": "urn:schemas-microsoft-com:office:office",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
}
_DECLARED = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in _NAMESPACES.items())
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_ODF_NAMESPACES = {
    **{
        name: f"{_ODF}{name}:1.0"
        for name in ("office", "style", "text", "table", "meta", "presentation", "form", "manifest")
    },
    "draw": f"{_ODF}drawing:1.0",
    "fo": f"{_ODF}xsl-fo-compatible:1.0",
    "svg": f"{_ODF}svg-compatible:1.0",
    "xlink": "http://www.w3.org/1999/xlink",
    "dc": "http://purl.org/dc/elements/1.1/",
    "math": "http://www.w3.org/1998/Math/MathML",
}
_ODF_DECLARED = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in _ODF_NAMESPACES.items())


def root(name: str, content: str) -> str:
    """Return a part of an Office Open XML file: its root element, with the usual namespaces declared."""
    return f"<{name} {_DECLARED}>{content}</{name}>"


def relations(**targets: str) -> str:
    """Return a part of relations from ids to `kind target`; the kind is the last word of the type."""
    links = "".join(
        f'<Relationship Id="{name}" Type="{_RELATION}/{kind}" Target="{target}"/>'
        for name, (kind, target) in ((name, each.split()) for name, each in targets.items())
    )
    return f'<Relationships xmlns="{_SCHEMAS}package/2006/relationships">{links}</Relationships>'


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    """Return an archive of parts by their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            # Without the time of the run, by which equal files would differ.
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def word_file(body: str, *, main: str = "word/document.xml", **parts: str) -> bytes:
    """Return a Word document.

    Args:
        body: Content of its body.
        main: Name of its main part.
        parts: Content of other parts by their kind: `styles`, `numbering`, `footnotes`, `comments` and so on.
    """
    roots = {
        "numbering": "w:numbering",
        "header": "w:hdr",
        "footer": "w:ftr",
        "charts": "c:chartSpace",
    }
    links = {name: f"{name} {name}.xml" for name in parts}
    files = {
        f"word/{name}.xml": root(roots.get(name, f"w:{name}"), content)
        for name, content in parts.items()
    }
    return office_file(main, root("w:document", f"<w:body>{body}</w:body>"), links, files)


def office_file(
    main: str,
    content: str,
    links: Mapping[str, str],
    parts: Mapping[str, str | bytes],
    core: str = "",
) -> bytes:
    """Return an Office Open XML file.

    Args:
        main: Name of the main part.
        content: Its XML.
        links: Its relations, as `relations` takes them.
        parts: Other parts by name.
        core: Elements of the properties of the file.
    """
    folder, _, name = main.rpartition("/")
    kind = (
        "wordprocessingml.document" if content.startswith("<w:") else "presentationml.presentation"
    )
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": (
            f'<Types xmlns="{_SCHEMAS}package/2006/content-types"><Override PartName="/{main}"'
            f' ContentType="application/vnd.openxmlformats-officedocument.{kind}.main+xml"/></Types>'
        ),
        "_rels/.rels": relations(main=f"officeDocument {main}"),
        main: content,
        f"{folder}/_rels/{name}.rels": relations(**links),
        **parts,
    }
    if core:
        files["docProps/core.xml"] = root("coreProperties", core)
    return archive(files)


def odf_file(
    kind: str, body: str, *, styles: str = "", named_styles: str = "", meta: str = "", **parts: str
) -> bytes:
    """Return a file of OpenDocument.

    Args:
        kind: `text` or `presentation`.
        body: Content of the element of this name.
        styles: Automatic styles of the content.
        named_styles: Content of the part of styles.
        meta: Elements of the properties.
        parts: Other parts by name; `__` stands for a slash.
    """

    def part(name: str, content: str) -> str:
        return f"<office:{name} {_ODF_DECLARED}>{content}</office:{name}>"

    automatic = f"<office:automatic-styles>{styles}</office:automatic-styles>"
    content = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    files = {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": part("document-content", automatic + content),
        "styles.xml": part("document-styles", f"<office:styles>{named_styles}</office:styles>"),
        "meta.xml": part("document-meta", f"<office:meta>{meta}</office:meta>"),
        **{name.replace("__", "/"): each for name, each in parts.items()},
    }
    return archive(files)
