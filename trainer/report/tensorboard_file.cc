#include "trainer/report/tensorboard_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/read_file.h"
#include "trainer/report/append_line.h"
#include "trainer/report/run_folder.h"

namespace ddprun::trainer {

namespace {

uint32_t MaskedChecksum(std::string_view bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xA282EAD8U;
}

// Returns the bytes of a number, the lowest first.
template <typename Number>
std::string Bytes(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

// The fields of a protobuf message.
std::string Varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}
std::string VarintField(uint64_t field, uint64_t number) {
  return Varint(field << 3) + Varint(number);
}
std::string DoubleField(uint64_t field, double number) {
  return Varint(field << 3 | 1) + Bytes(std::bit_cast<uint64_t>(number));
}
std::string FloatField(uint64_t field, float number) {
  return Varint(field << 3 | 5) + Bytes(std::bit_cast<uint32_t>(number));
}
std::string TextField(uint64_t field, std::string_view text) {
  return Varint(field << 3 | 2) + Varint(text.size()) + std::string(text);
}

// Messages, with the numbers of their fields.
std::string EventText(ReportTime now, int64_t step, const std::string& content) {
  return DoubleField(1, now.unix_seconds) + VarintField(2, static_cast<uint64_t>(step)) + content;
}
std::string FileVersion() {
  return TextField(3, "brain.Event:2");
}
// TensorBoard then hides the events of earlier files from the event's step on.
std::string SessionStart() {
  return TextField(7, VarintField(1, 1));
}
std::string Summary(const std::string& values) {
  return TextField(5, values);
}
std::string ScalarValue(std::string_view tag, double value) {
  return TextField(1, TextField(1, tag) + FloatField(2, static_cast<float>(value)));
}
std::string TextValue(const std::string& tag, std::string_view text) {
  constexpr uint64_t kString = 7;  // tensorflow::DT_STRING
  const std::string shape = TextField(2, VarintField(1, 1));
  const std::string tensor = VarintField(1, kString) + TextField(2, shape) + TextField(8, text);
  const std::string metadata = TextField(1, TextField(1, "text"));
  return TextField(
      1, TextField(1, tag + "/text_summary") + TextField(8, tensor) + TextField(9, metadata));
}

std::string FileName(ReportTime now) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%010lld",
                static_cast<long long>(now.unix_seconds));
  return "events.out.tfevents." + std::string(seconds.data()) + "." + host.data() + "." +
         std::to_string(::getpid()) + ".0";
}

}  // namespace

std::string TensorboardRecord(std::string_view data) {
  const std::string length = Bytes(uint64_t{data.size()});
  return length + Bytes(MaskedChecksum(length)) + std::string(data) + Bytes(MaskedChecksum(data));
}

void TensorboardFile::OnBegin(const RunHeader& header, ReportTime now) {
  const std::string folder = run_ + "/tensorboard";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Warn(folder + ": " + error.message());
  path_ = folder + "/" + FileName(now);
  Result<UniqueFd> opened = OpenToAppend(path_);
  if (!opened) return Warn(opened.error().what);
  fd_ = *std::move(opened);
  Append(EventText(now, 0, FileVersion()));
  if (continues_file_) return;
  Append(EventText(now, header.resumed_step + 1, SessionStart()));
  const auto config = ReadIfReadable(run_ + "/" + kResolvedConfig);
  if (!config) return;
  // Four spaces before each line are Markdown for code.
  std::string code = "    ";
  for (const char c : *config) code += c == '\n' ? std::string("\n    ") : std::string(1, c);
  Append(EventText(now, header.resumed_step + 1, Summary(TextValue("config", code))));
}

void TensorboardFile::OnStep(const StepReport& report, ReportTime now) {
  if (!report.reported) return;
  Scalars scalars = {{"train/loss", report.loss},
                     {"train/mean_loss", report.mean_loss},
                     {"train/learning_rate", report.learning_rate},
                     {"train/grad_norm", report.grad_norm},
                     {"train/epoch", report.epoch},
                     {"train/step_seconds", report.step_seconds}};
  const auto add = [&](bool known, const char* tag, double value) {
    if (known) scalars.emplace_back(tag, value);
  };
  const bool timed = report.step_seconds > 0;
  add(timed, "train/samples_per_second", static_cast<double>(report.samples) / report.step_seconds);
  add(timed && report.tokens > 0, "train/tokens_per_second",
      static_cast<double>(report.tokens) / report.step_seconds);
  add(report.loss_scale > 0, "train/loss_scale", report.loss_scale);
  add(report.loss_scale > 0, "train/skipped_steps", static_cast<double>(report.skipped_steps));
  add(report.exposed_comm_seconds >= 0, "train/exposed_comm_seconds", report.exposed_comm_seconds);
  add(report.pipeline_bubble >= 0, "train/pipeline_bubble", report.pipeline_bubble);
  const bool device = report.max_memory_allocated >= 0;
  add(device, "train/max_memory_allocated", static_cast<double>(report.max_memory_allocated));
  add(device, "train/max_memory_reserved", static_cast<double>(report.max_memory_reserved));
  Write(report.step, scalars, now);
}

void TensorboardFile::OnEval(const EvalReport& report, ReportTime now) {
  WriteEvaluation("validation/", report, now);
}

void TensorboardFile::OnTest(const EvalReport& report, ReportTime now) {
  WriteEvaluation("test/", report, now);
}

void TensorboardFile::WriteEvaluation(const std::string& split,
                                      const EvalReport& report,
                                      ReportTime now) {
  Scalars scalars = {{split + "loss", report.loss}};
  for (const auto& [name, value] : report.metrics) scalars.emplace_back(split + name, value);
  Write(report.step, scalars, now);
}

void TensorboardFile::Write(int64_t step, const Scalars& scalars, ReportTime now) {
  std::string values;
  for (const auto& [tag, value] : scalars) values += ScalarValue(tag, value);
  Append(EventText(now, step, Summary(values)));
}

void TensorboardFile::Append(const std::string& event) {
  if (!fd_.valid()) return;
  const Status status = AppendLine(fd_.get(), TensorboardRecord(event), path_);
  if (!status.ok()) Warn(status.error().what);
}

void TensorboardFile::Warn(const std::string& reason) {
  if (std::exchange(has_warned_, true)) return;
  warned_.OnNote("warning: numbers for TensorBoard are being lost: " + reason);
}

}  // namespace ddprun::trainer
