// Encodes documents and says how long it took: ddp-tokenizer-speed FOLDER FILE. The documents of
// FILE end in NUL bytes. Each line "THREADS" on stdin is answered by "SECONDS TOKENS CHECKSUM".
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpus.h"
#include "base/failure.h"
#include "trainer/text/tokenizer.h"

namespace {

std::vector<std::string_view> Documents(std::string_view all) {
  std::vector<std::string_view> documents;
  while (!all.empty()) {
    documents.push_back(all.substr(0, all.find('\0')));
    all.remove_prefix(documents.back().size() + 1);
  }
  return documents;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const auto tokenizer = ddprun::trainer::LoadTokenizer(argv[1]);
    std::ifstream file(argv[2], std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    const std::vector<std::string_view> documents = Documents(all);
    for (int threads = 0; std::cin >> threads;) {
      const auto start = std::chrono::steady_clock::now();
      std::vector<std::vector<int32_t>> ids(documents.size());
      // Few enough at once that no thread is left with all the long ones.
      ddprun::RunInParts(threads, ids.size(), 32, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) tokenizer->Encode(documents[i], ids[i]);
      });
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      uint64_t tokens = 0;
      uint64_t sum = 0;
      for (const auto& document : ids) {
        tokens += document.size();
        for (const int32_t id : document) sum += static_cast<uint64_t>(id);
      }
      std::cout << taken.count() << ' ' << tokens << ' ' << sum << std::endl;
    }
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return 1;
  }
  return 0;
}
