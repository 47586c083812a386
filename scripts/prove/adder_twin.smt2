; SPDX-License-Identifier: Apache-2.0
(define-fun twin () (_ BitVec 32) (|{top}_n twin| then))
(assert (distinct sum twin))
