// SPDX-License-Identifier: Apache-2.0
// STATUS of all regions: what is counted for it since each region's last commit, and its view.
//
// `clear` ends the counts of a region. `op_*` and `drs_*`: see nf_status_view.

`default_nettype none

module nf_region_status
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8
) (
  input  wire logic                  clk,    // clock, rising edge
  input  wire logic                  rst_n,  // asynchronous reset, active low

  input  wire logic [REGIONS-1:0]    clear,          // regions whose counts end (commit)
  input  wire logic                  refused,  // the access of `op_meta`
  input  wire engine_events_t        engine_events,  // event strobes of the engine
  input  wire logic [3:0]            event_region,   // region of the event
  input  wire logic [5:0]            event_worker,   // worker of the event

  input  wire logic [REGIONS*32-1:0] epoch,     // epoch of each region, 32 bits a region
  input  wire logic [REGIONS*32-1:0] complete,  // complete lines of each region, 32 bits a region
  input  wire logic [REGIONS-1:0]    done,      // regions whose lines are all complete
  input  wire logic [REGIONS-1:0]    fallback,  // regions in FALLBACK

  input  wire logic                  op_valid,     // operation valid
  output logic                       op_ready,     // operation taken
  input  wire logic [2:0]            op_selector,  // line of the view, 2 to 6
  input  wire resp_meta_t            op_meta,      // requester and region

  output logic                       drs_valid,  // line of the view valid
  input  wire logic                  drs_ready,  // line taken
  output answer_t                    drs         // line of the view
);
  logic [REGIONS*32-1:0] tally_refused, tally_late, tally_poisoned;
  logic                  count_valid, count_ready;
  logic [3:0]            count_region;
  logic [5:0]            count_worker;
  logic [31:0]           worker_lines;

  for (genvar r = 0; r < REGIONS; r++) begin : g_tally
    logic here;
    assign here = (event_region == 4'(r));

    nf_region_tally u_tally (
      .clk, .rst_n,
      .clear          (clear[r]),
      .refused_event  (refused && op_meta.in_region && (op_meta.region == 4'(r))),
      .late_event     (engine_events.late && here),
      .poisoned_event (engine_events.line_poisoned && here),
      .refused        (tally_refused[r*32 +: 32]),
      .late           (tally_late[r*32 +: 32]),
      .poisoned       (tally_poisoned[r*32 +: 32])
    );
  end

  nf_worker_lines #(.REGIONS(REGIONS)) u_worker_lines (
    .clk, .rst_n,
    .clear,
    .add (engine_events.worker_seen), .add_region (event_region),
    .add_worker (event_worker),
    .read_valid (count_valid), .read_ready (count_ready),
    .read_region (count_region),
    .read_worker (count_worker), .read_count (worker_lines)
  );

  nf_status_view #(.REGIONS(REGIONS)) u_view (
    .clk, .rst_n,
    .epoch, .complete,
    .done, .fallback,
    .refused (tally_refused), .late (tally_late),
    .poisoned (tally_poisoned),
    .op_valid, .op_ready,
    .op_selector, .op_meta,
    .count_valid, .count_ready,
    .count_region, .count_worker,
    .count (worker_lines),
    .drs_valid, .drs_ready,
    .drs
  );
endmodule

`default_nettype wire
