// An observer alone, which fails as its options say: {"fault": "throw at start"}.
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include <ddprun/plugin.h>

namespace {

// Writes each event to observed.txt in the run's folder.
class Notebook final : public ddprun::RunObserver {
 public:
  explicit Notebook(const ddprun::PluginObserverOptions& options)
      : fault_(nlohmann::json::parse(options.json).value("fault", "")),
        file_(options.folder + "/observed.txt", std::ios::app) {
    if (fault_ == "throw in constructor") throw std::runtime_error("no such tracker");
  }

  void OnStart(const ddprun::ObservedRun& run) override {
    if (fault_ == "throw at start") throw std::runtime_error("no such project");
    file_ << "start " << run.name << " " << run.ranks << " " << run.strategy << " "
          << run.parameters << " " << run.resumed_step << std::endl;
  }
  void OnStep(const ddprun::ObservedStep& step) override {
    if (fault_ == "throw at step 2" && step.step == 2) throw std::runtime_error("disk full");
    if (fault_ == "crash at step 2" && step.step == 2)
      *const_cast<volatile int*>(static_cast<int*>(nullptr)) = 1;
    file_ << "step " << step.step << "/" << step.max_steps << " " << step.loss << " "
          << step.samples << (step.grad_norm ? " logged" : "") << std::endl;
  }
  void OnEvaluation(const ddprun::ObservedEvaluation& evaluation) override {
    Note("evaluation", evaluation);
  }
  void OnTest(const ddprun::ObservedEvaluation& test) override { Note("test", test); }
  void OnCheckpoint(const ddprun::ObservedCheckpoint& checkpoint) override {
    file_ << "checkpoint " << checkpoint.step << " " << checkpoint.path << checkpoint.error
          << std::endl;
  }
  void OnEnd(const ddprun::ObservedEnd& end) override {
    file_ << "end " << end.step << " " << end.reason << " " << end.message << std::endl;
  }

 private:
  void Note(const char* event, const ddprun::ObservedEvaluation& found) {
    file_ << event << " " << found.step << " " << found.loss << " " << found.samples;
    for (const auto& [name, value] : found.metrics) file_ << " " << name << " " << value;
    file_ << std::endl;
  }

  const std::string fault_;
  std::ofstream file_;
};

}  // namespace

DDPRUN_PLUGIN(.observer = ddprun::NewObserver<Notebook>)
