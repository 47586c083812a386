// A pool of controllers: the sources of one, and what makes its ports accessible inside the top.
-f hdl/nf_controller.f
verif/fabric/nf_pool.sv
verif/fabric/nf_pool.vlt
