#include "rendezvous/elastic/leadership.h"

#include <optional>
#include <random>
#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "rendezvous/elastic/control_channel.h"
#include "rendezvous/elastic/control_message.h"
#include "rendezvous/net/async_connect.h"

namespace ddprun::rendezvous {

using nlohmann::json;

uint64_t RandomId() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

class Leadership::Impl : public std::enable_shared_from_this<Leadership::Impl> {
 public:
  Impl(asio::io_context& io,
       std::vector<HostPort> hosts,
       std::shared_ptr<Gate> gate,
       Campaign::Rules rules,
       Handlers handlers)
      : io_(io),
        hosts_(std::move(hosts)),
        gate_(std::move(gate)),
        own_(rules.own),
        handlers_(std::move(handlers)),
        campaign_(std::move(rules)),
        timer_(io) {}

  void Start() {
    asio::post(io_, [self = shared_from_this()] { self->OnTime(); });
  }

  void Stop() {
    stopped_ = true;
    timer_.cancel();
    calls_.clear();
    releases_.clear();
  }

  bool Leads() const { return campaign_.Leads(Clock::now()); }
  bool is_first() const { return campaign_.is_first(); }

 private:
  using Clock = std::chrono::steady_clock;

  // One ballot on its way to one host, and the vote on its way back.
  struct Call {
    std::unique_ptr<AsyncConnect> connect;
    std::unique_ptr<ControlChannel> channel;
  };

  void OnTime() {
    if (stopped_) return;
    Send(campaign_.OnTime(Clock::now()));
    Settle();
  }

  void Send(std::optional<Ballot> ballot) {
    if (!ballot) return;
    ++turn_;
    // The next ballot ends the calls of the last one, but not those that give a lease back.
    auto& calls = ballot->kind == Ballot::Kind::kRelease ? releases_ : calls_;
    calls.clear();
    calls.resize(hosts_.size());
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (static_cast<int>(i) == own_) continue;
      Call& call = calls[i];
      call.connect = std::make_unique<AsyncConnect>(
          io_, hosts_[i], gate_,
          [this, &call, i, turn = turn_, message = ToJson(*ballot)](auto fd) {
            if (fd.has_value()) Ask(call, static_cast<int>(i), turn, *std::move(fd), message);
          });
    }
    const Vote own = handlers_.own_vote(*ballot);
    asio::post(io_, [self = shared_from_this(), own, turn = turn_] {
      if (!self->stopped_) self->OnVote(self->own_, turn, own);
    });
  }

  // This object owns the call, so the handlers cannot outlive the object.
  void Ask(Call& call, int host, int turn, UniqueFd fd, const json& ballot) {
    call.channel = std::make_unique<ControlChannel>(
        io_, ControlChannel::End::kNode, std::move(fd), "",
        ControlChannel::Handlers{.on_message =
                                     [this, host, turn](const json& message) {
                                       const auto vote = VoteOf(message);
                                       if (vote) OnVote(host, turn, *vote);
                                     },
                                 .on_closed = [](const std::string&, ChannelEnd) {}});
    call.channel->Send(ballot);
  }

  void OnVote(int host, int turn, const Vote& vote) {
    if (turn != turn_) return;
    Send(campaign_.OnVote(host, vote, Clock::now()));
    Settle();
  }

  void Settle() {
    timer_.expires_at(campaign_.next());
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->OnTime();
    });
    const bool leads = Leads();
    if (std::exchange(led_, leads) == leads) return;
    const auto self = shared_from_this();  // the handler may destroy the owner
    handlers_.on_change(leads);
  }

  asio::io_context& io_;
  const std::vector<HostPort> hosts_;
  const std::shared_ptr<Gate> gate_;
  const int own_;
  const Handlers handlers_;
  Campaign campaign_;
  asio::steady_timer timer_;
  int turn_ = 0;             // of the last ballot
  std::vector<Call> calls_;  // by host, for the last ballot
  std::vector<Call> releases_;
  bool led_ = false;  // what on_change() was told last
  bool stopped_ = false;
};

Leadership::Leadership(asio::io_context& io,
                       std::vector<HostPort> hosts,
                       std::shared_ptr<Gate> gate,
                       Campaign::Rules rules,
                       Handlers handlers)
    : impl_(std::make_shared<Impl>(
          io, std::move(hosts), std::move(gate), std::move(rules), std::move(handlers))) {
  impl_->Start();
}

Leadership::~Leadership() {
  impl_->Stop();
}

bool Leadership::is_first() const {
  return impl_->is_first();
}

bool Leadership::Leads() const {
  return impl_->Leads();
}

}  // namespace ddprun::rendezvous
