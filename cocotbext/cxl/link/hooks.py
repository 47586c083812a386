# SPDX-License-Identifier: Apache-2.0
"""What a test may do to a link partner: hold back acknowledgements and credits, repeat a flit."""

from __future__ import annotations

from cocotbext.cxl.link.partner import LinkPartner, RxT, TxT, WireFlit
from cocotbext.cxl.wire.packer import Credits


class HookedPartner(LinkPartner[TxT, RxT]):
    """A link partner with hooks for faults that are no damage to a flit; a reset takes them away.

    ``hold_*(True)`` may be called again; ``hold_*(False)`` lets out all that has come meanwhile.
    """

    def reset(self) -> None:
        self._acks: int | None = None  # what is held; None: nothing is
        self._peer_acks: int | None = None
        self._peer_credits: Credits | None = None
        self._repeat_tx = self._repeat_rx = False
        self._again: WireFlit | None = None
        super().reset()

    def hold_acks(self, held: bool) -> None:
        """No acknowledgement of a flit of the peer leaves."""
        self.num_ack += self._acks or 0
        self._acks = None
        if held:
            self._acks, self.num_ack = self.num_ack, 0

    def hold_peer_acks(self, held: bool) -> None:
        """The peer's acknowledgements are not counted, as if they came late."""
        late, self._peer_acks = self._peer_acks, None
        if held:
            self._peer_acks = late or 0
        elif late:
            self._acknowledged(late)

    def hold_credits(self, held: bool) -> None:
        """No credit goes back to the peer."""
        self.returns.held = held

    def hold_peer_credits(self, held: bool) -> None:
        """There are no credits to spend; what the peer grants waits."""
        if held and self._peer_credits is None:
            self._peer_credits, self.credits = self.credits, Credits()
        elif not held and self._peer_credits is not None:
            self.credits, self._peer_credits = self._peer_credits, None

    def repeat_sent(self) -> None:
        """The next protocol or all-data flit leaves twice, which no link partner may do."""
        self._repeat_tx = True

    def repeat_received(self) -> None:
        """The next protocol or all-data flit is received twice."""
        self._repeat_rx = True

    # -------------------------------------------------------------------------- the partner's own

    def next_flit(self) -> WireFlit | None:
        if self._again is not None:
            out, self._again = self._again, None
            self.stall()
            return out
        wire = super().next_flit()
        if self._repeat_tx and wire is not None and not wire[1] & 1:
            self._repeat_tx, self._again = False, wire
        return wire

    def receive(self, protocol_id: int, flit: int) -> list[RxT]:
        messages = super().receive(protocol_id, flit)
        if self._repeat_rx and not flit & 1:
            self._repeat_rx = False
            messages += super().receive(protocol_id, flit)
        return messages

    def _good_retryable(self) -> None:
        super()._good_retryable()
        if self._acks is not None:
            self.hold_acks(True)

    def _acknowledged(self, count: int) -> None:
        if self._peer_acks is None:
            super()._acknowledged(count)
        else:
            self._peer_acks += count

    def _granted(self, header: int) -> None:
        if self._peer_credits is None:
            super()._granted(header)
            return
        own, self.credits = self.credits, self._peer_credits
        super()._granted(header)
        self.credits = own
