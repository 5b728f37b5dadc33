#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/StringUtil.h>

#include <map>

#include "base/failure.h"
#include "trainer/models/lora.h"
#include "trainer/models/pretrained.h"
#include "trainer/models/weights_files.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

namespace {

// The stored tensor from which each parameter is read, and the errors that were found.
struct Assignment {
  std::map<std::string, std::string> stored_name_of;
  std::vector<std::string> fresh;
  bool has_lora = false;
  StateDifferences wrong;
};

Assignment Assign(const Model& model, const WeightsFiles& files) {
  Assignment result;
  const auto parameters = model.State();
  for (const auto& [stored, entry] : files.entries()) {
    const auto name = model.ParameterFor(stored);
    if (!name) continue;
    result.has_lora = result.has_lora || IsLora(*name);
    const at::Tensor* parameter = parameters.find(*name);
    if (parameter == nullptr || !result.stored_name_of.emplace(*name, stored).second) {
      result.wrong.unknown.push_back(stored);
    } else if (parameter->sizes() != at::IntArrayRef(entry.shape) ||
               at::isFloatingType(parameter->scalar_type()) != at::isFloatingType(entry.dtype)) {
      result.wrong.misfits.push_back(stored + " is " + c10::str(at::IntArrayRef(entry.shape)) +
                                     " in the file and " + c10::str(parameter->sizes()) +
                                     " in the model");
    }
  }
  for (const auto& parameter : parameters) {
    if (result.stored_name_of.contains(parameter.key())) continue;
    if (IsLora(parameter.key()) && !result.has_lora) continue;
    (model.MayBeMissingInFile(parameter.key()) ? result.fresh : result.wrong.missing)
        .push_back(parameter.key());
  }
  return result;
}

// Returns the assignment. Throws Failure if it has errors.
Assignment CompleteAssignment(const Model& model, const WeightsFiles& files) {
  Assignment assignment = Assign(model, files);
  if (assignment.wrong.none()) return assignment;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "WEIGHTS DO NOT FIT THE MODEL",
                      .where = files.path(),
                      .what = "\"" + files.path() + "\" does not hold this model's weights.\n" +
                              assignment.wrong.Text("the model"),
                      .hint = "Make the model section describe the model that was saved.",
                      .page = "weights-do-not-fit"});
}

}  // namespace

void CheckWeights(const Model& model, const std::string& path) {
  CompleteAssignment(model, WeightsFiles(path, Verify::kSizes));
}

std::vector<std::string> LoadWeights(Model& model, const std::string& path) {
  const WeightsFiles files(path, Verify::kChecksums);
  Assignment assignment = CompleteAssignment(model, files);
  const at::NoGradGuard no_grad;
  for (auto& parameter : model.State()) {
    const auto stored = assignment.stored_name_of.find(parameter.key());
    if (stored == assignment.stored_name_of.end() && IsLora(parameter.key())) continue;
    if (stored == assignment.stored_name_of.end()) {
      // Draws on the CPU, like all weights.
      at::Tensor drawn = at::empty_like(parameter.value(), at::kCPU);
      model.InitializeParameter(parameter.key(), drawn);
      parameter.value().copy_(drawn);
    } else {
      files.entries().at(stored->second).read_into(parameter.value());
    }
  }
  if (!assignment.has_lora) InitializeLora(model);
  return std::move(assignment.fresh);
}

}  // namespace ddprun::trainer
