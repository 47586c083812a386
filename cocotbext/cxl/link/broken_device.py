# SPDX-License-Identifier: Apache-2.0
"""Device models with one fault each, of which some would hang a host without time-outs."""

from dataclasses import replace
from enum import Enum

from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.wire.control import RetryReq, decode_control
from cocotbext.cxl.wire.crc import PAYLOAD_MASK
from cocotbext.cxl.wire.flits import WireFlit, is_control
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SMessage, NdrOp, S2MMessage


class DeviceFault(Enum):
    """Fault of the device; the first four concern only the first read that it answers."""

    WRONG_TAG = "wrong-tag"
    LOST_RESPONSE = "lost-response"
    BAD_CRC = "bad-crc"
    NDR_FOR_DRS = "ndr-for-drs"
    NO_CREDITS = "no-credits"  # INIT is right, and grants none
    NO_CREDIT_RETURN = "no-credit-return"  # what INIT granted is all
    SILENT = "silent"  # no flit ever leaves
    NO_ACKS = "no-acks"  # flits are never acknowledged
    NO_RETRY_ACK = "no-retry-ack"  # RETRY.Req is not answered
    RETRAINS = "retrains"  # retrain_request stays up


class BrokenDevice(DeviceStub):
    """Device stub with plain memory that shows one DeviceFault."""

    def __init__(self, link: DeviceLink, fault: DeviceFault) -> None:
        super().__init__(link)
        self.fault = fault
        self._reads = 0
        self._damage = False
        if fault is DeviceFault.NO_CREDITS:
            link.config.grant_plain = link.config.grant_data = 0

    def receive(self, protocol_id: int, flit: int) -> None:
        payload = flit & PAYLOAD_MASK
        control = decode_control(payload)[0] if is_control(payload) else None
        if self.fault is DeviceFault.NO_RETRY_ACK and isinstance(control, RetryReq):
            return
        super().receive(protocol_id, flit)

    def answer(self, message: M2SMessage) -> S2MMessage | None:
        response = super().answer(message)
        if not isinstance(response, S2MDRS):
            return response
        self._reads += 1
        if self._reads > 1:
            return response
        match self.fault:
            case DeviceFault.WRONG_TAG:
                return replace(response, tag=response.tag ^ 0x8000)
            case DeviceFault.LOST_RESPONSE:
                return None
            case DeviceFault.NDR_FOR_DRS:
                return S2MNDR(NdrOp.CMP, response.tag, response.ldid)
            case DeviceFault.BAD_CRC:
                self._damage = True
        return response

    def next_flit(self, ready: bool = True) -> WireFlit | None:
        link, fault = self.link, self.fault
        if fault is DeviceFault.NO_CREDIT_RETURN and link.active:
            link.hold_credits(link.returns.held or not link.returns.initial)
        elif fault is DeviceFault.NO_ACKS:
            link.hold_acks(True)
        elif fault is DeviceFault.RETRAINS:
            link.retry.retrain_request = True
        out = super().next_flit(ready)
        if fault is DeviceFault.SILENT:
            return None
        if out is not None and self._damage and not is_control(out[1]):
            self._damage = False
            return out[0], out[1] ^ 1 << 300
        return out
