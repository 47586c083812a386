// SPDX-License-Identifier: Apache-2.0
// The yardstick of bulk replay: blocks that lie ready in a file through the same verilated model,
// in one program without Python and without checks. Prints clocks and seconds; reading is not counted.
//
//   bare FILE MEM_LINES_LOG2 SEED
//
// FILE holds blocks one after the other: operations, lines to send, lines that come back (three
// numbers of 32 bits), then the operations and the lines to send.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "flit.h"
#include "nf_bulk.h"

namespace {

struct Prepared {
  std::vector<nf_op> ops;
  std::vector<uint8_t> sent, got;
  std::vector<uint64_t> answers;
};

template <typename T>
bool read(std::FILE* file, std::vector<T>& into, size_t count) {
  into.resize(count);
  return std::fread(into.data(), sizeof(T), count, file) == count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "bare FILE MEM_LINES_LOG2 SEED\n");
    return 2;
  }
  std::FILE* file = std::fopen(argv[1], "rb");
  if (!file) {
    std::perror(argv[1]);
    return 2;
  }
  std::vector<Prepared> blocks;
  uint32_t sizes[3];
  while (std::fread(sizes, sizeof sizes, 1, file) == 1) {
    Prepared& block = blocks.emplace_back();
    const size_t sent = size_t{kLineBytes} * sizes[1];
    if (!read(file, block.ops, sizes[0]) || !read(file, block.sent, sent)) {
      std::fprintf(stderr, "%s is cut off\n", argv[1]);
      return 2;
    }
    block.got.resize(kLineBytes * size_t{sizes[2]});
    block.answers.resize(sizes[0]);
  }
  std::fclose(file);
  nf_device* device = nf_open(static_cast<uint32_t>(std::atoi(argv[2])),
                              static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)));
  nf_figures before, after;
  nf_read_figures(device, &before);
  const auto start = std::chrono::steady_clock::now();
  for (Prepared& one : blocks) {
    nf_block block{};
    block.ops = one.ops.data();
    block.sent = one.sent.data();
    block.got = one.got.data();
    block.answers = one.answers.data();
    block.count = static_cast<uint32_t>(one.ops.size());
    block.sent_lines = static_cast<uint32_t>(one.sent.size() / kLineBytes);
    block.got_lines = static_cast<uint32_t>(one.got.size() / kLineBytes);
    if (nf_run(device, &block)) {
      std::fprintf(stderr, "%s\n", nf_fault(device));
      return 1;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  nf_read_figures(device, &after);
  std::printf("%llu %.6f\n", static_cast<unsigned long long>(after.cycles - before.cycles),
              seconds.count());
  nf_close(device);
  return 0;
}
