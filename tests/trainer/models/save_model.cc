// save_model FOLDER: makes a small GPT with fixed weights, saves it to FOLDER, and prints the
// logits of a fixed input as nested JSON lists. For check_saved_model.py.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn_like.h>

#include <cstdio>
#include <iostream>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/models/gpt.h"
#include "trainer/models/pretrained.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: save_model FOLDER\n", stderr);
    return 2;
  }
  const at::NoGradGuard no_grad;
  at::manual_seed(3);
  const auto model = ddprun::trainer::MakeGpt({.vocab_size = 300,
                                               .n_positions = 24,
                                               .n_embd = 48,
                                               .n_layer = 3,
                                               .n_head = 6,
                                               .n_inner = 100});
  // Biases of 0 and gains of 1 would hide a tensor that went astray.
  for (at::Tensor& parameter : model->parameters()) {
    parameter.add_(at::randn_like(parameter), 0.05);
  }
  ddprun::trainer::SavePretrained(*model, argv[1]);
  const at::Tensor inputs = at::arange(2 * 24, at::kLong).view({2, 24}) * 6;
  const at::Tensor logits = model->Logits(inputs).contiguous();
  const auto* data = logits.const_data_ptr<float>();
  std::cout << nlohmann::json(std::vector<float>(data, data + logits.numel())) << "\n";
  return 0;
}
