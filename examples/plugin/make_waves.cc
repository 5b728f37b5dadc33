// make_waves FILE SEQUENCES LENGTH SEED: writes a training file, sums of two sines with noise.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numbers>
#include <random>

// The file has this header, then the float32 values; all in the byte order of x86 and ARM.
struct WaveHeader {
  char magic[8] = {'W', 'A', 'V', 'E', 'S', ' ', '1', '\n'};
  int32_t sequences = 0;
  int32_t length = 0;  // values of each sequence
};

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: make_waves FILE SEQUENCES LENGTH SEED\n");
    return 2;
  }
  WaveHeader header;
  header.sequences = std::atoi(argv[2]);
  header.length = std::atoi(argv[3]);
  std::ofstream file(argv[1], std::ios::binary);
  file.write(reinterpret_cast<const char*>(&header), sizeof(header));
  std::mt19937 random(static_cast<uint32_t>(std::atoi(argv[4])));
  std::uniform_real_distribution<float> uniform(0, 1);
  std::normal_distribution<float> noise(0, 0.02F);
  for (int32_t i = 0; i < header.sequences; ++i) {
    const float slow = 0.1F + 0.1F * uniform(random);
    const float fast = 0.4F + 0.4F * uniform(random);
    const float phase = 2 * std::numbers::pi_v<float> * uniform(random);
    for (int32_t t = 0; t < header.length; ++t) {
      const auto time = static_cast<float>(t);
      const float value =
          std::sin(slow * time + phase) + 0.5F * std::sin(fast * time) + noise(random);
      file.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  return file.flush() ? 0 : 1;
}
