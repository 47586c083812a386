; SPDX-License-Identifier: Apache-2.0
(define-fun exact () (_ FloatingPoint 8 24)
  (fp.add RNE ((_ to_fp 8 24) a) ((_ to_fp 8 24) b)))
(assert (not {right}))
(assert {among})
