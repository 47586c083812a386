// SPDX-License-Identifier: Apache-2.0
// The first rule that was broken, in words. Whatever follows it is not worth reading.
#pragma once

#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>

class Fault {
 public:
  explicit Fault(const uint64_t& cycle) : cycle_(cycle) {}
  explicit operator bool() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

  __attribute__((format(printf, 2, 3))) void set(const char* format, ...) {
    if (!text_.empty()) return;
    char words[400];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    text_ = "cycle " + std::to_string(cycle_) + ": " + words;
  }

 private:
  const uint64_t& cycle_;
  std::string text_;
};
