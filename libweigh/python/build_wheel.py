"""Makes the wheel, of nothing but Python's own library: so it installs without a network.

libweigh is compiled into it from the sources next to this folder, if there are sources and a
compiler. Where not, the installed libweigh.so.0 is taken when the module is imported.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = HERE.parent
FLAGS = (
    "-std=gnu17 -D_GNU_SOURCE -O2 -fPIC -fvisibility=hidden -pthread -shared -Wl,-z,nodelete -Wl,-z,now"
)


def version() -> str:
    """That of the header: the wheel is of one version with the library."""
    text = (LIBRARY.parent / "Cargo.toml").read_text()
    found = re.search(r'^version = "(.*)"', text, re.MULTILINE)
    if not found:
        raise RuntimeError("Cargo.toml has no version")
    return found.group(1)


def compiled(folder: pathlib.Path) -> pathlib.Path | None:
    """The library, or None if it cannot be made here."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    sources = sorted(LIBRARY.glob("src/*.c"))
    if not sources or not shutil.which(compiler[0]):
        return None
    made = folder / "libweigh.so"
    script = f"-Wl,--version-script={LIBRARY / 'libweigh.map'}"
    subprocess.run(
        [*compiler, *FLAGS.split(), f"-I{LIBRARY}", script, "-o", made, *sources], check=True
    )
    return made


def build_wheel(
    wheel_directory: str, config_settings: object = None, metadata_directory: object = None
) -> str:
    """What pip calls."""
    name = f"weigh-{version()}"
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(pathlib.Path(folder))
        platform = re.sub(r"[-.]", "_", sysconfig.get_platform()) if library else "any"
        tag = f"py3-none-{platform}"
        files = {f"weigh/{path.name}": path.read_bytes() for path in (HERE / "weigh").glob("*.py")}
        files["weigh/py.typed"] = b""
        if library:
            files["weigh/libweigh.so"] = library.read_bytes()
    about = f"Metadata-Version: 2.1\nName: weigh\nVersion: {version()}\n"
    about += "Summary: What a program's own system calls cost in each part of the kernel\n"
    about += "License: Apache-2.0 OR MIT\nRequires-Python: >=3.9\n"
    files[f"{name}.dist-info/METADATA"] = about.encode()
    pure = "false" if library else "true"
    wheel = f"Wheel-Version: 1.0\nGenerator: weigh\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    files[f"{name}.dist-info/WHEEL"] = wheel.encode()
    record = f"{name}.dist-info/RECORD"
    lines = [f"{path},sha256={digest(data)},{len(data)}" for path, data in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    result = f"{name}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / result, "w", zipfile.ZIP_DEFLATED) as out:
        for path, data in files.items():
            out.writestr(path, data)
    return result


def digest(data: bytes) -> str:
    """As RECORD wants it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
