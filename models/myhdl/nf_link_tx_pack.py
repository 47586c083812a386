# SPDX-License-Identifier: Apache-2.0
"""Twin of `nf_link_tx_pack`: S2M messages into flits, from one list of headers and one of chunks.

A queued message is a header and four chunks; the header leaves first. Among legal flits the choice
is the one that the header of the RTL module promises. Spec: link §3 to §6.
"""

from __future__ import annotations

from typing import Annotated, Any

from myhdl import Signal, always, always_comb, block, intbv

from models.myhdl.ports import Bit, BitOut, LineOut, Port

NDR_BITS = 22  # {tag, LD-ID, DevLoad}
HEADER_BITS = 23  # {tag, LD-ID, DevLoad, Poison}
LINE = 512
CHUNK = 128
CHUNKS = 4  # of a line
MESSAGES = 4
DRS_BITS = HEADER_BITS + LINE
HEADER_MASK = (1 << HEADER_BITS) - 1
CHUNK_MASK = (1 << CHUNK) - 1
H3, H4, H5 = 3, 4, 5  # slot 0: DRS and NDR; 2 NDR; 2 DRS
G5, G6 = 5, 6  # slots 1 to 3: 2 NDR; 3 DRS. G0 holds data.
NDR_WIRE = 30
DRS_WIRE = 40
BODY = 32
"""Start of slot 0 after the header of the flit."""


Ndr = Annotated[Any, Port(NDR_BITS)]
Credits = Annotated[Any, Port(10)]
Granted = Annotated[Any, Port(4)]
Number = Annotated[Any, Port(2, output=True)]


@block
def nf_link_tx_pack(
    clk: Any,
    rst_n: Bit,
    enable: Bit,
    multi_header: Bit,
    room_drs: Bit,
    room_multi: Bit,
    ndr_count: Annotated[Any, Port(3)],
    ndr0: Ndr,
    ndr1: Ndr,
    drs_valid: Bit,
    drs: Annotated[Any, Port(DRS_BITS)],
    ndr_credits: Credits,
    drs_credits: Credits,
    ak: Bit,
    req_crd: Granted,
    data_crd: Granted,
    flit_ready: Bit,
    ndr_pop: Number,
    drs_ready: BitOut,
    drs_sent: Number,
    drs_empty: BitOut,
    flit_valid: BitOut,
    flit: LineOut,
    header: BitOut,
    run: BitOut,
) -> Any:
    """Pack queued DRS messages and offered NDR messages into flits.

    Two lists, oldest first from bit 0: queued headers, and data chunks that have not left. `drs` is
    {header, line}; `ndr_credits` and `drs_credits` are the credits that the host has left for the
    device.
    """
    headers = Signal(intbv(0)[MESSAGES * HEADER_BITS :])
    waiting = Signal(intbv(0)[3:])
    chunks = Signal(intbv(0)[MESSAGES * LINE :])
    held = Signal(intbv(0)[5:])  # chunks
    owed = Signal(intbv(0)[5:])  # chunks whose header has left
    going = Signal(bool(0))  # a flit is offered
    leaving_headers = Signal(intbv(0)[2:])  # with it
    leaving_ndrs = Signal(intbv(0)[2:])
    leaving_chunks = Signal(intbv(0)[3:])
    room = Signal(bool(0))

    @always_comb
    def pack():
        payload = intbv(0)[LINE:]
        body = intbv(0)[CHUNK:]  # of one slot
        message = intbv(0)[DRS_WIRE:]
        one = intbv(0)[HEADER_BITS:]
        payload[:] = 0
        ndrs = int(ndr_count)
        more_ndrs = ndrs > 2  # that wait, whether they may leave or not
        if ndrs > ndr_credits:
            ndrs = int(ndr_credits)
        if ndrs > 2:
            ndrs = 2
        news = 0  # headers that may leave
        if room_drs:
            news = int(waiting)
            if news > drs_credits:
                news = int(drs_credits)
        sent_chunks = 0
        sent_headers = 0
        sent_ndrs = 0
        valid = False
        alone = False
        if owed > 3:
            valid = True
            alone = True
            payload[:] = chunks[LINE:]
            sent_chunks = 4
        elif enable and (owed > 0 or ndrs > 0 or news > 0):
            valid = True
            # Headers to send, and the slot of those with lines; 4: none.
            lines_at = 4
            ndrs_at = 4
            slot_format = 0
            if multi_header and room_multi and news > 1 and ndrs == 0:
                lines_at = 0
                slot_format = H5
                sent_headers = 2
            elif multi_header and room_multi and news > 2 and owed < 3 and not more_ndrs:
                lines_at = owed + 1
                ndrs_at = 0
                slot_format = H4
                sent_headers = news
                if news > 3:
                    sent_headers = 3
                sent_ndrs = ndrs
            elif news > 0:
                lines_at = 0
                ndrs_at = 0
                slot_format = H3
                sent_headers = 1
                if ndrs > 0:
                    sent_ndrs = 1
            else:
                ndrs_at = 0
                slot_format = H4
                sent_ndrs = ndrs
            payload[2] = ak
            if sent_headers > 0:
                payload[4] = True  # Sz
            payload[8:5] = slot_format
            payload[28:24] = req_crd
            payload[32:28] = data_crd
            due = int(owed) + CHUNKS * sent_headers
            for slot in range(4):
                body[:] = 0
                place = 0
                if lines_at == slot:
                    for n in range(3):
                        if n < sent_headers:
                            one[:] = (headers >> (HEADER_BITS * n)) & HEADER_MASK
                            message[:] = 0
                            message[0] = True
                            message[6:4] = 3  # MetaField: No-Op
                            message[24:8] = one[23:7]  # tag
                            message[24] = one[0]  # Poison
                            message[29:25] = one[7:3]  # LD-ID
                            message[31:29] = one[3:1]  # DevLoad
                            body[:] = body | (message << place)
                            place += DRS_WIRE
                if ndrs_at == slot:
                    for n in range(2):
                        if n < sent_ndrs:
                            one[:] = ndr0
                            if n == 1:
                                one[:] = ndr1
                            message[:] = 0
                            message[0] = True
                            message[6:4] = 3
                            message[24:8] = one[22:6]
                            message[28:24] = one[6:2]
                            message[30:28] = one[2:]
                            if lines_at != slot and n == 0:
                                # H4: DevLoad of the first NDR follows the second NDR.
                                message[30:28] = 0
                                body[:] = body | (one[2:] << 58)
                                body[:] = body | message
                                place = 28
                            else:
                                body[:] = body | (message << place)
                                place += NDR_WIRE
                if slot == 0:
                    payload[:] = payload | (body << BODY)
                elif lines_at == slot:
                    payload[:] = payload | (body << (CHUNK * slot)) | (G6 << (5 + 3 * slot))
                elif due > sent_chunks:
                    body[:] = (chunks >> (CHUNK * sent_chunks)) & CHUNK_MASK
                    payload[:] = payload | (body << (CHUNK * slot))
                    sent_chunks += 1
                else:
                    payload[:] = payload | (G5 << (5 + 3 * slot))
        going.next = valid
        leaving_headers.next = sent_headers
        leaving_ndrs.next = sent_ndrs
        leaving_chunks.next = sent_chunks
        flit_valid.next = valid
        flit.next = payload
        header.next = not alone
        run.next = valid and owed + CHUNKS * sent_headers - sent_chunks > 3

    @always_comb
    def tell():
        ndr_pop.next = 0
        drs_sent.next = 0
        if going and flit_ready:
            ndr_pop.next = leaving_ndrs
            drs_sent.next = leaving_headers

    @always_comb
    def store():
        room.next = held <= CHUNKS * (MESSAGES - 1)
        drs_ready.next = held <= CHUNKS * (MESSAGES - 1)
        drs_empty.next = held == 0

    @always(clk.posedge, rst_n.negedge)
    def move():
        if not rst_n:
            headers.next = 0
            waiting.next = 0
            chunks.next = 0
            held.next = 0
            owed.next = 0
        else:
            left = intbv(0)[MESSAGES * HEADER_BITS :]
            rest = intbv(0)[MESSAGES * LINE :]
            added = intbv(0)[MESSAGES * LINE :]
            left[:] = headers
            rest[:] = chunks
            now_waiting = int(waiting)
            now_held = int(held)
            now_owed = int(owed)
            if going and flit_ready:
                left[:] = left >> (HEADER_BITS * leaving_headers)
                rest[:] = rest >> (CHUNK * leaving_chunks)
                now_waiting -= int(leaving_headers)
                now_held -= int(leaving_chunks)
                now_owed += CHUNKS * int(leaving_headers) - int(leaving_chunks)
            if drs_valid and room:
                added[:] = drs[DRS_BITS:LINE]
                left[:] = left | (added << (HEADER_BITS * now_waiting))
                added[:] = drs[LINE:]
                rest[:] = rest | (added << (CHUNK * now_held))
                now_waiting += 1
                now_held += CHUNKS
            headers.next = left
            waiting.next = now_waiting
            chunks.next = rest
            held.next = now_held
            owed.next = now_owed

    return pack, tell, store, move
