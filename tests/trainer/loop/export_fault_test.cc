// Every call that reads or changes a file fails in turn while a checkpoint is exported: what was
// there before is as it was, or the export is there, whole; and what is not ddprun's stays in any
// case.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/owned_folder.h"
#include "tests/trainer/checkpoint/failing_disk.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/models/pretrained.h"
#include "trainer/worker/export_checkpoint.h"

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;

const MlpOptions kMlp{.sizes = {2, 3}};

class ExportFault : public testing::Test {
 protected:
  // All parameters of the model of a step are its number.
  std::string Save(int64_t step) const {
    const auto model = MakeModel(kMlp);
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : model->parameters()) parameter.fill_(step);
    const nlohmann::json config = {
        {"model", {{"type", "mlp"}, {"layer_sizes", {2, 3}}}},
        {"data",
         {{"format", "random"}, {"num_samples", 4}, {"input_size", 2}, {"target_size", 3}}}};
    return SaveCheckpoint(
               {.folder = folder_.Path("checkpoints")}, SaveState([&](StateVisitor& visitor) {
                 visitor.Section("model.");
                 for (const auto& item : model->State()) {
                   visitor.Tensor(item.key(), item.value());
                 }
               }),
               {.step = step, .attempt = "a", .run = nlohmann::json{{"config", config}}.dump()})
        .path;
  }

  static int64_t StepOf(const std::string& path) {
    const auto model = MakeModel(kMlp);
    LoadWeights(*model, path);
    return model->parameters()[0].flatten()[0].item<int64_t>();
  }

  // Exports step 1, then step 2 in its place on such a disk; returns the calls.
  int ExportOn(const Fault& fault, const std::string& name, bool mine) {
    using Export = std::function<void(const Checkpoint&, const std::string&)>;
    const bool whole_folder = name == "folder";
    const Export run = [&](const Checkpoint& checkpoint, const std::string& to) {
      if (whole_folder) ExportFolder(checkpoint, to, {});
      if (name == "file.pt") ExportTorchFile(checkpoint, to, Exported::kModel);
      if (name == "file.safetensors") ExportSafetensors(checkpoint, to, Exported::kModel);
    };
    const std::string parent = folder_.Path("to");
    const std::string to = parent + "/" + name;
    fs::remove_all(parent);
    fs::create_directory(parent);
    run(*first_, to);
    if (mine) std::ofstream(to + "/mine.txt") << "mine";
    FailingDisk disk(fault, /*reads=*/true);
    bool thrown = false;
    {
      const WatchFiles watch(folder_.Path(""), disk);
      try {
        // Past the refusal, as a file that comes meanwhile does.
        if (mine) {
          SavePretrained(*second_model_, to);
        } else {
          run(*second_, to);
        }
      } catch (const Failure&) {
        thrown = true;
      }
    }
    const std::string what = name + ", errno " + std::to_string(fault.error_number) + " at call " +
                             std::to_string(fault.from);
    EXPECT_TRUE(fs::exists(to)) << what;
    const int64_t found = StepOf(to);
    EXPECT_TRUE(found == 2 || (thrown && found == 1)) << what;
    if (mine) {
      int64_t kept = 0;
      for (const auto& entry : fs::recursive_directory_iterator(parent)) {
        kept += entry.path().filename() == "mine.txt" ? 1 : 0;
      }
      EXPECT_EQ(kept, 1) << what;
    } else if (whole_folder) {
      EXPECT_TRUE(CheckOnlyOwnEntries(to, IsListed).ok()) << what;
    }
    return disk.calls();
  }

  void FailEachCallOf(const std::string& name, bool mine = false) {
    FailEachCall(3, [&](const Fault& fault) { return ExportOn(fault, name, mine); });
  }

  const ScratchFolder folder_;
  const std::optional<Checkpoint> first_ = ValueOrThrow(Checkpoint::Open(Save(1)));
  const std::optional<Checkpoint> second_ = ValueOrThrow(Checkpoint::Open(Save(2)));
  const std::shared_ptr<Model> second_model_ = [] {
    auto model = MakeModel(kMlp);
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : model->parameters()) parameter.fill_(2);
    return model;
  }();
};

TEST_F(ExportFault, LosesNoFolder) {
  FailEachCallOf("folder");
}

TEST_F(ExportFault, LosesNothingThatItDidNotWrite) {
  FailEachCallOf("folder", /*mine=*/true);
}

TEST_F(ExportFault, LosesNoFile) {
  FailEachCallOf("file.pt");
  FailEachCallOf("file.safetensors");
}

}  // namespace
}  // namespace ddprun::trainer
