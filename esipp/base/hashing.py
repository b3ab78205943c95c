"""Names derived from content: keys of files and values, and file names of ids."""

import hashlib
import json
import re
from pathlib import Path


def key_of(*inputs: object) -> str:
    """Hash inputs: text, lists and mappings by value, files and folders by their paths and content.

    Compiled Python and READMEs are left out of folders: they change nothing in what is built.
    """
    digest = hashlib.sha256()
    for thing in inputs:
        if isinstance(thing, Path):
            files = sorted(p for p in thing.rglob("*") if p.is_file()) if thing.is_dir() else [thing]
            for path in files:
                if "__pycache__" not in path.parts and path.name != "README.md":
                    name = str(path.relative_to(thing)) if path != thing else path.name
                    digest.update(f"{name}\0{oct(path.stat().st_mode & 0o111)}\0".encode() + path.read_bytes())
        else:
            digest.update(json.dumps(thing, sort_keys=True).encode())
        digest.update(b"\0\0")
    return digest.hexdigest()[:16]


def file_name(identity: str) -> str:
    """A file name for an id, of letters, digits, dots, dashes and underscores; it is unique for each id."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", identity).lstrip(".-")
    if plain and plain == identity and len(plain) <= 120:
        return plain
    return f"{plain[:110]}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
