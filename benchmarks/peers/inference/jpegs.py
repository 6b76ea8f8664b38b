"""The JPEGs of a folder, for programs with any packages. Standard library only."""


def jpegs(folder):
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not found:
        raise SystemExit(f"[peers] no JPEGs in {folder}")
    return found
