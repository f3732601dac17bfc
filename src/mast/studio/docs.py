"""The API on one page, without a script: made of what /openapi.json says."""

from __future__ import annotations

from html import escape
from typing import Any


def documentation(api: dict[str, Any]) -> str:
    """HTML for people; machines read /openapi.json."""
    rows = [
        f"<tr><th scope='row'><code>{method.upper()} {escape(path)}</code></th>"
        f"<td>{escape(facts.get('description') or facts.get('summary', ''))}{_takes(facts)}</td></tr>"
        for path, methods in api["paths"].items()
        for method, facts in methods.items()
    ]
    schemas = []
    for name, schema in api["components"]["schemas"].items():
        fields = "".join(
            f"<li><code>{escape(field)}</code>: {escape(_kind(facts))}. "
            f"{escape(facts.get('description', ''))}</li>"
            for field, facts in schema.get("properties", {}).items()
        )
        about = escape(schema.get("description", ""))
        schemas.append(f"<h3 id='{escape(name)}'>{escape(name)}</h3><p>{about}</p><ul>{fields}</ul>")
    info = api["info"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>mast studio: API</title>
</head>
<body><main>
<h1>{escape(info["title"])}: the API</h1>
<p>{escape(info["description"])} Errors are <code>{{"error": "a sentence"}}</code>.
Machines read <a href="/openapi.json">openapi.json</a>.</p>
<table>{"".join(rows)}</table>
<h2>What is sent and given</h2>
{"".join(schemas)}
</main></body>
</html>"""


def _takes(facts: dict[str, Any]) -> str:
    parts = [f"{one['name']} ({one['in']})" for one in facts.get("parameters", [])]
    for media, content in facts.get("requestBody", {}).get("content", {}).items():
        parts.append(f"{media}: {_kind(content.get('schema', {}))}")
    return f" Takes {escape(', '.join(parts))}." if parts else ""


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[key]))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    kind = str(schema.get("type", "anything"))
    bounds = [f"{word} {schema[key]:g}" for key, word in BOUNDS.items() if key in schema]
    inner = f" of {_kind(schema['items'])}" if "items" in schema else ""
    return f"{kind}{inner}{' ' if bounds else ''}{', '.join(bounds)}"


BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
