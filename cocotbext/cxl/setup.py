# SPDX-License-Identifier: Apache-2.0
"""Build step of the wheel that leaves the tests out; the metadata is in pyproject.toml."""

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithoutTests(build_py):  # type: ignore[misc]
    """Build step that packs all modules of the package except tests, conftest.py and this file."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return the modules of a package to pack, as (package, module, file), without tests."""
        found = super().find_package_modules(package, package_dir)
        names = ("test_", "conftest", "setup")
        return [one for one in found if not one[1].startswith(names)]


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithoutTests})
