// SPDX-License-Identifier: Apache-2.0
// What a build with mutants asks its run: which mutant is chosen, and where to note what was seen.
//
// NF_MUTANT is the number of a mutant; 0 chooses none, -1 none but notes in the file NF_MUTANT_SEEN,
// byte N for mutant N, whether the mutant would ever have made a difference where it stands.
// The file is mapped: a fork of a simulator ends without the handlers of its start.

#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr int kMost = 1 << 20;

unsigned char* seen_file() {
    const char* const name = std::getenv("NF_MUTANT_SEEN");
    const int file = name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (file < 0 || ftruncate(file, kMost) != 0) return nullptr;
    void* const map = mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return map == MAP_FAILED ? nullptr : static_cast<unsigned char*>(map);
}

}  // namespace

extern "C" int nf_mutation_number() {
    const char* const text = std::getenv("NF_MUTANT");
    return text ? std::atoi(text) : 0;
}

extern "C" unsigned char nf_mutation_note(int number, unsigned char differs) {
    static unsigned char* const seen = seen_file();
    if (differs && seen && number < kMost) seen[number] = 1;
    return 0;
}
