# SPDX-License-Identifier: Apache-2.0
"""CXL.mem over 68-byte flits for cocotb: host, device and monitor on pins, without numpy.

Names are imported on first use, so that ``cocotbext.cxl.wire`` and ``cocotbext.cxl.link`` work
without cocotb, and all modules but ``cocotbext.cxl.uvm_agent`` without pyuvm.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cocotbext.cxl.bus import CxlMemBus
    from cocotbext.cxl.config import CxlConfig, ReadyPattern
    from cocotbext.cxl.device import CxlMemDevice
    from cocotbext.cxl.errors import CxlError, CxlPoisonError, CxlTimeout
    from cocotbext.cxl.host import CxlMemHost
    from cocotbext.cxl.link.link_config import LinkConfig
    from cocotbext.cxl.monitor import CxlMemMonitor

__version__ = "0.1.0"
__all__ = [
    "CxlConfig",
    "CxlError",
    "CxlMemBus",
    "CxlMemDevice",
    "CxlMemHost",
    "CxlMemMonitor",
    "CxlPoisonError",
    "CxlTimeout",
    "LinkConfig",
    "ReadyPattern",
]

_HOME = {
    "bus": ("CxlMemBus",),
    "config": ("CxlConfig", "ReadyPattern"),
    "device": ("CxlMemDevice",),
    "errors": ("CxlError", "CxlPoisonError", "CxlTimeout"),
    "host": ("CxlMemHost",),
    "link.link_config": ("LinkConfig",),
    "monitor": ("CxlMemMonitor",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return resolve_name(f"cocotbext.cxl.{module}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
