// Messages on a TCP connection: each is a header and its data. A connection carries the messages of
// one rank to another, and none back. Internal to its folder.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "trainer/comm/net/tcp_inbox.h"

namespace ddprun::trainer {

struct TcpFrameHeader {
  uint64_t tag = 0;
  uint64_t bytes = 0;
};

// Sends. Not thread-safe.
class TcpFrameWriter {
 public:
  // `greeting` goes first.
  explicit TcpFrameWriter(std::string greeting = "") : greeting_(std::move(greeting)) {}

  void Add(TcpHandle send);
  bool idle() const { return greeting_.empty() && frames_.empty(); }
  enum class Outcome { kIdle, kMore, kFull, kFailed };
  // Writes some of it without waiting, and finishes the sends that the socket has taken: kFull if
  // it takes no more, kMore if it may take more now; kFailed sets errno.
  Outcome Write(int socket);
  // Ends all sends.
  void Fail(const Status& status);

 private:
  struct Frame {
    TcpFrameHeader header;
    TcpHandle send;
  };
  void Advance(size_t bytes);

  std::string greeting_;      // what is left of it
  std::deque<Frame> frames_;  // the sends that are not done
  size_t written_ = 0;        // bytes of the first frame
};

// Receives. Not thread-safe.
class TcpFrameReader {
 public:
  explicit TcpFrameReader(int from = -1) : from_(from) {}

  static constexpr int kEnded = -1;
  // Reads what has come, but not for ever. Returns 0, the errno, or kEnded if the sender has closed
  // the connection.
  int Read(int socket, TcpInbox& inbox);

 private:
  size_t Rest() const { return message_ ? message_->bytes - received_ : 0; }
  void Parse(TcpInbox& inbox);
  void Count(size_t bytes, TcpInbox& inbox);

  // The data of long messages does not go through the buffer, except for its beginning.
  static constexpr size_t kBufferBytes = size_t{8} << 10;

  int from_;
  TcpInbox::Message message_ = {};  // the one that is arriving
  size_t received_ = 0;             // bytes of it
  // Bytes that have come and are not parsed yet. Empty before the first Read(), because there is a
  // reader for each rank of the job.
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace ddprun::trainer
