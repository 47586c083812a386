# SPDX-License-Identifier: Apache-2.0
"""Base of sequences that run on the agent's sequencer."""

from __future__ import annotations

from collections.abc import Iterable

from pyuvm import uvm_sequence

from cocotbext.cxl.agent.items import CxlBatchItem, CxlMemItem, Transaction
from cocotbext.cxl.wire.messages import BE_ALL, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp, S2MMessage


class CxlMemSequence(uvm_sequence):
    """Verbs for traffic; ``body`` is the user's."""

    async def issue(self, message: M2SMessage, keep_tag: bool = False) -> Transaction:
        """Hand one request to the driver; await ``.wait()`` of the result for its response."""
        item = CxlMemItem(message, keep_tag)
        await self.start_item(item)
        await self.finish_item(item)
        return item.transactions[0]

    async def call(self, message: M2SMessage) -> S2MMessage | None:
        """One request and its response."""
        return await (await self.issue(message)).wait()

    async def send_all(self, messages: Iterable[M2SMessage]) -> list[S2MMessage | None]:
        """Many requests, as fast as the link takes them; all responses in request order."""
        item = CxlBatchItem(messages)
        await self.start_item(item)
        await self.finish_item(item)
        return await item.wait()

    async def read(self, addr: int, ldid: int = 0) -> S2MMessage | None:
        """MemRd of the line at a byte address."""
        return await self.call(M2SReq(ReqOp.MEM_RD, 0, addr, ldid))

    async def write(
        self, addr: int, data: bytes, ldid: int = 0, be: int = BE_ALL, poison: bool = False
    ) -> S2MMessage | None:
        """MemWr of 64 bytes, or MemWrPtl where some byte is not enabled."""
        opcode = RwdOp.MEM_WR if be == BE_ALL else RwdOp.MEM_WR_PTL
        message = M2SRwD(opcode, 0, addr, ldid=ldid, data=data, be=be, poison=poison)
        return await self.call(message)
