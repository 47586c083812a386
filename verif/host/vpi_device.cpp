// SPDX-License-Identifier: Apache-2.0
// The same host behind a VPI system task: $nf_bulk(from_device, to_device), once a clock.
//
// Blocks come from another process: a line of text over a pipe says how large the arrays are, which
// lie in shared memory; a line goes back when the block is done. Environment: NF_BULK (file numbers
// of both pipes and of the memory, log2 of the device's lines, seed, the three of nf_memory).
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vpi_user.h>

#include <cstdlib>
#include <memory>

#include "host.h"

namespace {

static_assert(sizeof(nf_figures) <= NF_FIGURES_BYTES, "the figures stand before the arrays");
constexpr size_t kFromWords = sizeof(FromDevice) / 4, kToWords = sizeof(ToDevice) / 4;

class Server {
 public:
  Server(int commands, int answers, int memory, unsigned lines_log2, uint32_t seed,
         const nf_memory& timing)
      : host_(lines_log2, seed, timing), commands_(fdopen(commands, "r")), answers_(answers),
        memory_(memory) {
    map();
  }

  void clock(const s_vpi_vecval* values) {
    auto* words = reinterpret_cast<uint32_t*>(&from_);
    bool unknown = false;
    for (size_t i = 0; i < kFromWords; ++i) {
      words[i] = static_cast<uint32_t>(values[i].aval & ~values[i].bval);
      unknown |= values[i].bval != 0;
    }
    if (unknown && to_.phy_up) check_known(values);
    host_.clock(from_, to_);
    if (host_.busy()) return;
    if (late_ && !host_.fault()) {
      --late_;
      return;
    }
    reply();
    wait();
  }

  const uint32_t* inputs() const { return reinterpret_cast<const uint32_t*>(&to_); }

 private:
  static constexpr int kLate = 32;  // an answer too many comes late

  // A payload with an unknown bit is a fault where its valid is 1, any other output always.
  void check_known(const s_vpi_vecval* values) {
    for (const OutputWords& output : kOutputs) {
      const bool control = output.valid == output.first;
      if (!control && !(values[output.valid].aval & 1)) continue;
      for (unsigned i = 0; i < output.count; ++i) {
        if (!values[output.first + i].bval) continue;
        host_.fault().set(control ? "an output that must be known is X"
                                  : "the device transfers an X");
      }
    }
  }

  void map() {
    struct stat status;
    if (fstat(memory_, &status) || static_cast<size_t>(status.st_size) <= size_) return;
    if (base_) munmap(base_, size_);
    size_ = static_cast<size_t>(status.st_size);
    void* base = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
    if (base == MAP_FAILED) std::abort();
    base_ = static_cast<uint8_t*>(base);
  }

  void reply() {
    std::memcpy(base_, &host_.figures(), sizeof(nf_figures));
    const std::string text = (host_.fault() ? host_.fault().text() : "ok") + "\n";
    if (write(answers_, text.data(), text.size()) < 0) vpi_control(vpiFinish, 0);
  }

  // Waits for the next block; the end of the pipe ends the simulation.
  void wait() {
    unsigned count, sent, got, beside, queues;
    char line[100];
    while (std::fgets(line, sizeof line, commands_)) {
      if (std::sscanf(line, "run %u %u %u %u %u", &count, &sent, &got, &beside, &queues) == 5 &&
          !host_.fault()) {
        map();
        uint8_t* at = base_ + NF_FIGURES_BYTES;
        nf_block block{};
        block.count = count;
        block.sent_lines = sent;
        block.got_lines = got;
        block.beside = beside;
        block.queues = queues;
        block.ops = reinterpret_cast<nf_op*>(at);
        at += sizeof(nf_op) * count;
        block.answers = reinterpret_cast<uint64_t*>(at);
        at += sizeof(uint64_t) * count;
        block.sent = at;
        block.got = at + size_t{kLineBytes} * sent;
        host_.begin(block);
        late_ = kLate;
        return;
      }
      reply();  // the fault, again
    }
    vpi_control(vpiFinish, 0);
  }

  Host host_;
  std::FILE* commands_;
  int answers_, memory_;
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  int late_ = kLate;
  FromDevice from_{};
  ToDevice to_{};
};

std::unique_ptr<Server> server;
vpiHandle outputs, inputs;

PLI_INT32 call(PLI_BYTE8*) {
  if (!server) {
    int commands, answers, memory;
    unsigned lines_log2, seed;
    nf_memory timing;
    const char* text = std::getenv("NF_BULK");
    if (!text || std::sscanf(text, "%d,%d,%d,%u,%u,%u,%u,%u", &commands, &answers, &memory,
                             &lines_log2, &seed, &timing.latency, &timing.beat,
                             &timing.stall) != 8) {
      vpi_printf(const_cast<char*>("$nf_bulk: the variable NF_BULK is missing\n"));
      vpi_control(vpiFinish, 1);
      return 0;
    }
    server = std::make_unique<Server>(commands, answers, memory, lines_log2, seed, timing);
    vpiHandle arguments = vpi_iterate(vpiArgument, vpi_handle(vpiSysTfCall, nullptr));
    outputs = vpi_scan(arguments);
    inputs = vpi_scan(arguments);
    vpi_free_object(arguments);
  }
  s_vpi_value value;
  value.format = vpiVectorVal;
  vpi_get_value(outputs, &value);
  server->clock(value.value.vector);
  static s_vpi_vecval next[kToWords];
  for (size_t i = 0; i < kToWords; ++i) {
    next[i].aval = static_cast<PLI_INT32>(server->inputs()[i]);
    next[i].bval = 0;
  }
  value.value.vector = next;
  vpi_put_value(inputs, &value, nullptr, vpiNoDelay);
  return 0;
}

void enlist() {
  static char name[] = "$nf_bulk";
  s_vpi_systf_data task{};
  task.type = vpiSysTask;
  task.tfname = name;
  task.calltf = call;
  vpi_register_systf(&task);
}

}  // namespace

extern "C" {
void (*vlog_startup_routines[])() = {enlist, nullptr};
}
