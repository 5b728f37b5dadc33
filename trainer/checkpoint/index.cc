#include "trainer/checkpoint/index.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "trainer/state/placement.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

json PieceJson(const CheckpointPiece& piece) {
  json text = {
      {"file", piece.file}, {"name", piece.name}, {"offset", piece.offset}, {"shape", piece.shape}};
  if (piece.flat) text["flat"] = true;
  return text;
}

json TableJson(const TensorTable& table) {
  json tensors = json::object();
  for (const auto& [name, tensor] : table.tensors) {
    json pieces = json::array();
    for (const CheckpointPiece& piece : tensor.pieces) pieces.push_back(PieceJson(piece));
    tensors[name] = {{"dtype", SafetensorsDtype(tensor.dtype, name)},
                     {"shape", tensor.shape},
                     {"pieces", std::move(pieces)}};
  }
  return {{"tensors", std::move(tensors)}, {"aliases", table.aliases}, {"numbers", table.numbers}};
}

// Throws json::exception.
TensorTable ParseTable(const json& value) {
  TensorTable table{.aliases = value.at("aliases"), .numbers = value.at("numbers")};
  for (const auto& [name, item] : value.at("tensors").items()) {
    CheckpointTensor& tensor = table.tensors[name];
    const auto dtype = ParseSafetensorsDtype(item.at("dtype").get<std::string>());
    if (!dtype) throw json::other_error::create(0, name + " has an unknown dtype", nullptr);
    tensor.dtype = *dtype;
    tensor.shape = item.at("shape").get<std::vector<int64_t>>();
    for (const json& piece : item.at("pieces")) {
      tensor.pieces.push_back({.file = piece.at("file"),
                               .name = piece.at("name"),
                               .offset = piece.at("offset"),
                               .shape = piece.at("shape"),
                               .flat = piece.value("flat", false)});
    }
  }
  return table;
}

// Returns the name of a piece in a shard. A name includes the piece's range, because a shard allows
// each name only once.
std::string PieceName(const StateTensor& tensor, const CheckpointPiece& piece) {
  if (piece.shape == tensor.global_shape) return tensor.name;
  std::string range = piece.flat ? "flat " : "";
  for (size_t i = 0; i < piece.shape.size(); ++i) {
    range += (i == 0 ? "" : ",") + std::to_string(piece.offset[i]) + ":" +
             std::to_string(piece.offset[i] + piece.shape[i]);
  }
  return tensor.name + "[" + range + "]";
}

// Returns what is missing or too much in the pieces; empty if they make up the whole.
std::string Gap(const CheckpointTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return "has no shape";
  }
  std::vector<PartRuns> pieces;
  std::vector<int64_t> next(tensor.pieces.size());  // the next run of each piece
  std::map<int64_t, size_t> waiting;                // pieces by where this run begins
  const auto wait = [&](size_t i) {
    return next[i] == pieces[i].count() || waiting.emplace(pieces[i].begin(next[i]++), i).second;
  };
  for (const CheckpointPiece& piece : tensor.pieces) {
    if (!IsWithin(piece, tensor.shape)) return "has a piece beyond its shape";
    pieces.emplace_back(tensor.shape, piece.offset, piece.shape, piece.flat);
    if (!wait(pieces.size() - 1)) return "has two pieces that overlap";
  }
  int64_t at = 0;
  while (!waiting.empty()) {
    const auto [begin, i] = *waiting.begin();
    if (begin > at) break;
    waiting.erase(waiting.begin());
    at += pieces[i].length();
    if (begin + pieces[i].length() != at || !wait(i)) return "has two pieces that overlap";
  }
  return at == elements ? "" : "is not there as a whole";
}

}  // namespace

CheckpointPiece PlaceOf(const StateTensor& tensor, const PlannedPiece& piece) {
  CheckpointPiece place;
  place.offset = tensor.offset;
  place.shape = tensor.tensor.sizes().vec();
  if (!place.shape.empty()) {
    place.offset[0] += piece.begin;
    place.shape[0] = piece.end - piece.begin;
  }
  place.flat = tensor.flat;
  place.name = PieceName(tensor, place);
  return place;
}

bool IsWithin(const CheckpointPiece& piece, const std::vector<int64_t>& shape) {
  if (piece.flat) {
    return IsWithin({.offset = piece.offset, .shape = piece.shape},
                    {c10::multiply_integers(shape)});
  }
  if (piece.offset.size() != shape.size() || piece.shape.size() != shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (piece.offset[i] < 0 || piece.shape[i] < 1 || piece.shape[i] > shape[i] ||
        piece.offset[i] > shape[i] - piece.shape[i]) {
      return false;
    }
  }
  return true;
}

TensorTable TableOf(const StateDict& state,
                    std::span<const PlannedPiece> pieces,
                    const std::string& file) {
  TensorTable table{.numbers = state.numbers};
  const std::span<const StateTensor> tensors = state.tensors;
  const std::vector<size_t> first = FindFirstOfTied(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StateTensor& tensor = tensors[i];
    if (first[i] != i) {
      table.aliases[tensor.name] = tensors[first[i]].name;
    } else {
      table.tensors.try_emplace(
          tensor.name, CheckpointTensor{tensor.tensor.scalar_type(), tensor.global_shape, {}});
    }
  }
  for (const PlannedPiece& piece : pieces) {
    const StateTensor& tensor = tensors[piece.tensor];
    CheckpointPiece place = PlaceOf(tensor, piece);
    place.file = file;
    table.tensors[tensor.name].pieces.push_back(std::move(place));
  }
  return table;
}

Result<std::string> IndexText(const Index& index) {
  json run = json::parse(index.run, nullptr, /*allow_exceptions=*/false);
  if (!run.is_object()) {
    return Error{.title = "CHECKPOINT NOT SAVED",
                 .where = "step " + std::to_string(index.step),
                 .what = "The text in SaveRequest::run must be a JSON object.",
                 .page = "checkpoint-not-saved"};
  }
  json text = TableJson(index.table);
  text["format_version"] = kCheckpointFormat;
  text["step"] = index.step;
  text["run"] = std::move(run);
  return text.dump(1) + "\n";
}

Result<Index> ParseIndex(std::string_view text, const std::string& path) {
  Index index;
  try {
    const json value = json::parse(text);
    index.step = value.at("step");
    index.run = value.at("run").dump();
    index.table = ParseTable(value);
  } catch (const json::exception& error) {
    return BrokenCheckpoint(path, error.what());
  }
  for (const auto& [name, tensor] : index.table.tensors) {
    const std::string gap = Gap(tensor);
    if (!gap.empty()) return BrokenCheckpoint(path, "tensor \"" + name + "\" " + gap);
  }
  for (const auto& [alias, name] : index.table.aliases) {
    if (!index.table.tensors.contains(name)) {
      return BrokenCheckpoint(
          path, "\"" + alias + "\" shares the tensor \"" + name + "\", which is missing");
    }
  }
  return index;
}

std::string RecordText(const ShardRecord& record) {
  json text = TableJson(record.table);
  text["file"] = record.shard.name;
  text["bytes"] = record.shard.bytes;
  text["crc32c"] = record.shard.crc32c;
  text["error"] = record.error;
  return text.dump();
}

std::optional<ShardRecord> ParseRecord(std::string_view text) {
  try {
    const json value = json::parse(text);
    return ShardRecord{.shard = {value.at("file"), value.at("bytes"), value.at("crc32c")},
                       .table = ParseTable(value),
                       .error = value.at("error")};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

Status Merge(TensorTable table, TensorTable& all) {
  const auto differ = [](const std::string& name, const std::string& how = "types or shapes") {
    return Error{.title = "CHECKPOINT NOT SAVED",
                 .where = name,
                 .what = "Two ranks have \"" + name + "\" in different " + how + ".",
                 .page = "checkpoint-not-saved"};
  };
  for (auto& [name, tensor] : table.tensors) {
    CheckpointTensor& known =
        all.tensors.try_emplace(name, CheckpointTensor{tensor.dtype, tensor.shape, {}})
            .first->second;
    if (known.dtype != tensor.dtype || known.shape != tensor.shape) return differ(name);
    std::move(tensor.pieces.begin(), tensor.pieces.end(), std::back_inserter(known.pieces));
  }
  for (const auto& [alias, name] : table.aliases) {
    if (all.aliases.try_emplace(alias, name).first->second != name) return differ(alias);
  }
  for (const auto& [name, number] : table.numbers) {
    const int64_t known = all.numbers.try_emplace(name, number).first->second;
    if (known == number) continue;
    return differ(name, "numbers: " + std::to_string(known) + " and " + std::to_string(number));
  }
  // A rank without elements of two tied tensors cannot know that they are tied.
  for (const auto& [alias, name] : all.aliases) {
    const auto found = all.tensors.find(alias);
    if (found != all.tensors.end() && found->second.pieces.empty()) all.tensors.erase(found);
  }
  return {};
}

}  // namespace ddprun::trainer
