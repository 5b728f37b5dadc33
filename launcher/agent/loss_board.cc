#include "launcher/agent/loss_board.h"

#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/untrusted_json.h"
#include "rendezvous/store/wire.h"

namespace ddprun::launcher {

namespace {

using rendezvous::Op;
using rendezvous::Reply;

std::string ToText(const Loss& loss) {
  return nlohmann::json{
      {"node", loss.node_rank}, {"local_rank", loss.local_rank}, {"rank", loss.rank}}
      .dump();
}

std::optional<Loss> Parse(const std::string& text, int generation) {
  const nlohmann::json json = ParseUntrustedJson(text);
  const auto number = [&json](const char* name) -> std::optional<int> {
    const auto value = json.is_object() ? json.find(name) : json.end();
    if (value == json.end() || !value->is_number_integer()) return std::nullopt;
    const auto found = value->get<int64_t>();
    return found >= 0 && found < (1 << 30) ? std::optional(static_cast<int>(found)) : std::nullopt;
  };
  const auto node = number("node");
  const auto local_rank = number("local_rank");
  const auto rank = number("rank");
  if (!node || !local_rank || !rank) return std::nullopt;
  return Loss{generation, *node, *local_rank, *rank};
}

}  // namespace

LossBoard::LossBoard(asio::io_context& io,
                     const rendezvous::RendezvousOptions& options,
                     const rendezvous::Membership& membership,
                     Handlers handlers)
    : prefix_("/ddprun/lost/" + std::to_string(membership.round) + "/"),
      handlers_(std::move(handlers)),
      announces_(io,
                 {membership.master_addr, membership.master_port},
                 options.gate,
                 rendezvous::DeadlineAfter(options.rules.join_timeout)),
      waits_(io,
             {membership.master_addr, membership.master_port},
             options.gate,
             rendezvous::DeadlineAfter(options.rules.join_timeout)) {
  if (!membership.stands_in) Await(1);
}

void LossBoard::Announce(const Loss& loss) {
  rendezvous::Request count = rendezvous::KeyRequest(Op::kAdd, KeyOf("count"));
  count.number = 1;
  announces_.Call(std::move(count), [this, loss](const Result<Reply>& reply) {
    if (!reply) return Fail(reply.error().what);
    if (next_ == 0) Await(static_cast<int>(reply->number));
    const std::string key = KeyOf(std::to_string(reply->number));
    announces_.Call(rendezvous::KeyRequest(Op::kSet, key, ToText(loss)),
                    [this](const Result<Reply>& stored) {
                      if (!stored) Fail(stored.error().what);
                    });
  });
}

void LossBoard::Await(int generation) {
  next_ = generation;
  const std::string key = KeyOf(std::to_string(next_));
  waits_.Call(rendezvous::KeysRequest(Op::kWait, {key}), [this, key](const Result<Reply>& there) {
    if (!there) return Fail(there.error().what);
    waits_.Call(rendezvous::KeyRequest(Op::kGet, key), [this](const Result<Reply>& reply) {
      if (!reply) return Fail(reply.error().what);
      OnNext(*reply);
    });
  });
}

void LossBoard::OnNext(const Reply& reply) {
  const std::optional<Loss> loss = Parse(reply.values.front(), next_);
  if (!loss) return Fail("the store has no worker there");
  Await(next_ + 1);
  handlers_.on_loss(*loss);
}

void LossBoard::Fail(const std::string& reason) {
  if (!std::exchange(failed_, true)) handlers_.on_failed(reason);
}

}  // namespace ddprun::launcher
