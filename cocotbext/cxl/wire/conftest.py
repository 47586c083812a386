# SPDX-License-Identifier: Apache-2.0
"""Random M2S requests for tests."""

import random

from cocotbext.cxl.wire.messages import BE_ALL, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp


def random_requests(rng: random.Random, count: int, lines: int = 16) -> list[M2SMessage]:
    """Return ``count`` random reads, writes and partial writes of lines 0 .. ``lines`` - 1.

    The n-th request has tag n, from 0.
    """
    out: list[M2SMessage] = []
    for tag in range(count):
        addr, ldid, kind = 64 * rng.randrange(lines), rng.randrange(16), rng.randrange(4)
        if kind < 2:
            out.append(M2SReq((ReqOp.MEM_RD, ReqOp.MEM_RD_DATA)[kind], tag, addr, ldid))
            continue
        opcode, be = (
            (RwdOp.MEM_WR, BE_ALL) if kind == 2 else (RwdOp.MEM_WR_PTL, rng.getrandbits(64))
        )
        out.append(M2SRwD(opcode, tag, addr, ldid, data=rng.randbytes(64), be=be))
    return out
