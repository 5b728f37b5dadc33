// Reports a run to the observer of a plugin (report.plugin).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainer/config/config.h"
#include "trainer/plugin/load_plugin.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

class PluginObserver final : public Observer {
 public:
  // `told` gets a note if the plugin's code throws after the start.
  PluginObserver(const ReportConfig& config, std::string folder, Observer& told)
      : plugin_(LoadPlugin(config.plugin)),
        options_{.json = config.options.text, .folder = std::move(folder)},
        told_(told) {}

  // Makes the plugin's observer. Throws Failure if its code throws.
  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnStep(const StepReport& report, ReportTime now) override;
  void OnEval(const EvalReport& report, ReportTime now) override;
  void OnTest(const EvalReport& report, ReportTime now) override;
  void OnCheckpoint(const CheckpointReport& report, ReportTime now) override;
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  // Calls call(observer), unless an earlier call threw. `method` and `step` are for the note.
  void Call(const char* method, int64_t step, const std::function<void(RunObserver&)>& call);

  const Plugin plugin_;
  const PluginObserverOptions options_;
  Observer& told_;
  std::unique_ptr<RunObserver> observer_;  // nullptr after its code threw
};

}  // namespace ddprun::trainer
