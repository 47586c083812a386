; SPDX-License-Identifier: Apache-2.0
(define-fun sg ((x (_ BitVec 32))) (_ BitVec 1) ((_ extract 31 31) x))
(define-fun ex ((x (_ BitVec 32))) (_ BitVec 8) ((_ extract 30 23) x))
(define-fun wide ((x (_ BitVec 32))) (_ BitVec 10) ((_ zero_extend 2) (ex x)))
(define-fun odd ((x (_ BitVec 32))) Bool
  (or (= (ex x) #xff) (= ((_ extract 30 0) x) (_ bv0 31))))
(define-fun far ((x (_ BitVec 32)) (y (_ BitVec 32))) Bool
  (bvugt (wide x) (bvadd (wide y) (_ bv26 10))))
(declare-const now |{top}_s|)
(declare-const then |{top}_s|)
(assert (|{top}_t| now then))
(assert (= (|{top}_n en| now) {en}))
(define-fun a () (_ BitVec 32) (|{top}_n a| now))
(define-fun b () (_ BitVec 32) (|{top}_n b| now))
(define-fun sum () (_ BitVec 32) (|{top}_n sum| then))
