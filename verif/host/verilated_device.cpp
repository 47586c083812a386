// SPDX-License-Identifier: Apache-2.0
// The controller as Verilator compiles it, and the clock loop around it: one evaluation a clock.
#include <cstdio>
#include <memory>
#include <vector>

#include "Vnf.h"
#include "host.h"
#include "verilated.h"

namespace {

// What $error has printed last: an assertion names itself there, and then stops the simulation.
thread_local std::string last_line;

struct Stopped {};

// Where the stage probe of the model that is evaluated by this thread puts what it sees.
thread_local std::vector<nf_passed_event>* probed = nullptr;
thread_local uint64_t probed_clock = 0;

static_assert(sizeof(Vnf::next) == sizeof(ToDevice), "nf_pins.h has the words of nf_pins.sv");
static_assert(sizeof(Vnf::from_device) == sizeof(FromDevice), "and so for the outputs");

}  // namespace

// Verilator's run time prints through here (VL_PRINTF), and stops through the functions below.
extern "C" int nf_print(const char* format, ...) {
  char text[1000];
  va_list arguments;
  va_start(arguments, format);
  const int count = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  last_line = text;
  while (!last_line.empty() && last_line.back() == '\n') last_line.pop_back();
  return count;
}

// nf_stage_probe.sv: an access, by its tag, or a client of the memory passes a stage.
extern "C" void nf_passed(int stage, int who) {
  if (probed) probed->push_back({probed_clock, uint32_t(stage), uint32_t(who)});
}

void vl_stop(const char*, int, const char*) VL_MT_UNSAFE { throw Stopped{}; }
void vl_finish(const char*, int, const char*) VL_MT_UNSAFE { throw Stopped{}; }
void vl_fatal(const char* file, int line, const char*, const char* text) VL_MT_UNSAFE {
  nf_print("%s:%d: %s", file, line, text);
  throw Stopped{};
}

struct nf_device {
  nf_device(uint32_t mem_lines_log2, uint32_t seed, const nf_memory& memory)
      : host(mem_lines_log2, seed, memory) {
    context.randReset(2);  // 2-state must not hide a flop without a reset
    context.randSeed(static_cast<int>(seed % 0x7FFFFFFF) + 1);
    top = std::make_unique<Vnf>(&context);
    try {
      top->eval();
    } catch (const Stopped&) {  // the RTL refuses its parameters
      stopped();
    }
  }

  // Scopes leave the context of the thread; that of a device closed before is gone.
  ~nf_device() { Verilated::threadContextp(&context); }

  // A rising edge: what the host makes of the outputs before it, the device sees after it.
  void tick() {
    std::memcpy(&from, &top->from_device, sizeof from);
    host.clock(from, to);
    std::memcpy(&top->next, &to, sizeof to);
    top->step = !top->step;
    context.timeInc(1);
    probed = &passed;
    probed_clock = host.figures().cycles;
    top->eval();
  }

  // Clocks until the block is done, and a little longer: an answer too many comes late.
  int run() {
    constexpr int kLate = 32;
    try {
      while (host.busy()) tick();
      for (int i = 0; i < kLate && !host.fault(); ++i) tick();
    } catch (const Stopped&) {
      stopped();
    }
    return host.fault() ? 1 : 0;
  }

  void stopped() { host.fault().set("%s", last_line.c_str()); }

  VerilatedContext context;
  Host host;
  std::unique_ptr<Vnf> top;
  FromDevice from{};
  ToDevice to{};
  std::vector<nf_passed_event> passed;
};

nf_device* nf_open(uint32_t mem_lines_log2, uint32_t seed, const nf_memory* memory) {
  auto* device = new nf_device(mem_lines_log2, seed, *memory);
  device->run();
  return device;
}

int nf_run(nf_device* device, const nf_block* block) {
  if (device->host.fault()) return 1;
  device->host.begin(*block);
  return device->run();
}

const char* nf_fault(const nf_device* device) {
  return const_cast<nf_device*>(device)->host.fault().text().c_str();
}

void nf_read_figures(const nf_device* device, nf_figures* figures) {
  *figures = device->host.figures();
}

void nf_set_flit_clocks(nf_device* device, uint32_t clocks) {
  device->host.set_flit_clocks(clocks);
}

uint32_t nf_take_passed(nf_device* device, nf_passed_event* events, uint32_t room) {
  const size_t count = device->passed.size();
  if (count > room) return uint32_t(count);
  std::copy(device->passed.begin(), device->passed.end(), events);
  device->passed.clear();
  return uint32_t(count);
}

void nf_close(nf_device* device) { delete device; }
