#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <sstream>

#include "bench/commands.hpp"
#include "bench/raw_socket.hpp"
#include "bench/statistics.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "wire/link.hpp"
#include "wire/stream.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Channel;
using wire::Clock;

constexpr auto kPatience = 60s;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::size_t kMostFrameBytes = std::size_t{8} << 20;

struct TransportOptions {
  std::vector<std::size_t> frames{65536, 262144, 1048576, 4194304, 8388608};
  std::vector<std::size_t> tensors{65536, 262144, 1048576, 4194304, 16777216, 67108864};
  int repeats = 15;
  int fan_out = 0;
  std::string listen;   ///< this machine sends, the other one connects
  std::string connect;  ///< this machine receives
  std::string format = "text";
};

/// Bytes of one stream of frames: long enough that its start does not count.
constexpr std::size_t kStreamBytes = std::size_t{128} << 20;

/// A tensor of so many bytes, in maps of 16 KiB.
Shape shape_of(std::size_t bytes) { return {static_cast<int>(std::max<std::size_t>(1, bytes / 65536)), 4, 64, 64}; }

[[noreturn]] void timed_out(const char* what) { fail("the other side did not {} within {} s", what, kPatience.count()); }

// ---- what comes next -----------------------------------------------------------------------------------------------

enum class Way { raw, frames, tensor };
constexpr std::array<const char*, 3> kWays{"raw", "frames", "tensor"};

/// `count` pieces of `bytes` each are sent next. Travels as the text of a message that benchmarks have no use for.
struct Order {
  Way way = Way::raw;
  std::size_t count = 1;
  std::size_t bytes = 0;
};

wire::Message encode(const Order& order) {
  return wire::Welcome{.run = fmt::format("{} {} {}", kWays[static_cast<std::size_t>(order.way)], order.count, order.bytes)};
}

std::optional<Order> decode(const wire::Message& message) {
  const auto* welcome = std::get_if<wire::Welcome>(&message);
  if (welcome == nullptr) return std::nullopt;
  std::istringstream words(welcome->run);
  std::string way;
  Order order;
  words >> way >> order.count >> order.bytes;
  const auto* const found = std::find(kWays.begin(), kWays.end(), way);
  if (!words || found == kWays.end() || order.bytes > kMostBytes) fail("'{}' is no order of this benchmark", welcome->run);
  order.way = static_cast<Way>(found - kWays.begin());
  return order;
}

// ---- the receiving side --------------------------------------------------------------------------------------------

class Receiver {
 public:
  Receiver(const std::string& endpoint, const std::string& raw_host, int raw_port)
      : link_(endpoint), raw_(raw_port > 0 ? RawSocket::connect(raw_host, raw_port) : RawSocket()) {
    answer(wire::Attach{"receiver"});
  }

  /// Obeys orders until told bye.
  void run() {
    while (true) {
      const wire::Envelope envelope = next();
      if (std::holds_alternative<wire::Bye>(envelope.message)) return;
      const std::optional<Order> order = decode(envelope.message);
      if (!order) continue;
      buffer_.resize(order->bytes / sizeof(float));
      answer(wire::Done{});
      if (order->way == Way::raw) take_raw(*order);
      if (order->way == Way::frames) take_frames(*order);
      if (order->way == Way::tensor) take_tensor(*order);
    }
  }

 private:
  wire::Envelope next() {
    auto from = link_.receive(Clock::now() + kPatience);
    if (!from) timed_out("send what it announced");
    return std::move(from->envelope);
  }
  void answer(const wire::Message& message) { link_.send(Channel::data, {message, {}}, Clock::now() + kPatience); }

  void take_raw(const Order& order) {
    for (std::size_t i = 0; i < order.count; ++i) raw_.receive(buffer_.data(), order.bytes);
    raw_.send("k", 1);
  }
  void take_frames(const Order& order) {
    for (std::size_t i = 0; i < order.count;) {
      if (next().payload.size() == order.bytes) ++i;
    }
    answer(wire::Done{});
  }
  void take_tensor(const Order& order) {
    wire::Assembler assembler(shape_of(order.bytes), buffer_);
    while (!assembler.complete()) {
      const wire::Envelope envelope = next();
      if (const auto* piece = std::get_if<wire::Piece>(&envelope.message)) assembler.add(*piece, envelope.payload.floats());
    }
    answer(wire::Done{});
  }

  wire::ClientLink link_;
  RawSocket raw_;
  std::vector<float> buffer_;
};

// ---- the sending side ----------------------------------------------------------------------------------------------

class Sender {
 public:
  explicit Sender(const std::string& endpoint) : link_(endpoint) {}

  std::string endpoint() const { return link_.endpoint(); }
  void wait_for_receivers(int count) {
    while (static_cast<int>(peers_.size()) < count) {
      const auto from = link_.receive(Clock::now() + kPatience);
      if (!from) timed_out("connect");
      if (std::holds_alternative<wire::Attach>(from->envelope.message)) peers_.push_back(from->peer);
    }
  }

  /// Seconds from a tensor in our memory to the answer that it lies in theirs.
  double send_tensor(const Tensor& tensor) {
    announce({Way::tensor, 1, tensor.bytes()});
    const Stopwatch watch;
    for (const wire::Envelope& piece : wire::make_pieces(tensor)) send(piece);
    await_done();
    return watch.seconds();
  }
  /// Seconds from the first of `count` frames to the answer that all are there.
  double send_frames(std::size_t count, std::size_t bytes) {
    const wire::Envelope frame{wire::Piece{.samples = 1, .channels = 1}, wire::Payload(bytes)};
    announce({Way::frames, count, bytes});
    const Stopwatch watch;
    for (std::size_t i = 0; i < count; ++i) send(frame);
    await_done();
    return watch.seconds();
  }
  /// The same by a bare socket.
  double send_raw(RawSocket& raw, std::size_t count, std::size_t bytes) {
    const std::vector<char> buffer(bytes, 1);
    announce({Way::raw, count, bytes});
    const Stopwatch watch;
    for (std::size_t i = 0; i < count; ++i) raw.send(buffer.data(), bytes);
    char answer = 0;
    raw.receive(&answer, 1);
    return watch.seconds();
  }
  void dismiss() {
    send({wire::Bye{"measured"}, {}});
    // Let the farewells leave before the socket closes.
    link_.receive(Clock::now() + 200ms);
  }

 private:
  void announce(const Order& order) {
    send({encode(order), {}});
    await_done();
  }
  void send(const wire::Envelope& envelope) {
    for (const std::string& peer : peers_) link_.send(peer, Channel::data, envelope, Clock::now() + kPatience);
  }
  void await_done() {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!link_.receive(Clock::now() + kPatience)) timed_out("answer");
    }
  }

  wire::ServerLink link_;
  std::vector<std::string> peers_;
};

/// Processes that receive, ended with this object whatever happens.
class Receivers {
 public:
  /// To be made before any socket: forks. `start` waits for its word on where to connect.
  explicit Receivers(int count) {
    for (int i = 0; i < count; ++i) {
      int ends[2];
      if (pipe(ends) != 0) fail("no pipe to a receiving process");
      const pid_t pid = fork();
      if (pid == 0) run_child(ends);
      close(ends[0]);
      children_.push_back({pid, ends[1]});
    }
  }
  ~Receivers() {
    for (const Child& child : children_) {
      close(child.pipe);
      kill(child.pid, SIGTERM);
      waitpid(child.pid, nullptr, 0);
    }
  }
  Receivers(const Receivers&) = delete;
  Receivers& operator=(const Receivers&) = delete;

  void start(const std::string& endpoint, int raw_port) {
    const std::string word = fmt::format("{} {}\n", endpoint, raw_port);
    for (const Child& child : children_) {
      if (write(child.pipe, word.data(), word.size()) < 0) fail("a receiving process is gone");
    }
  }

 private:
  struct Child {
    pid_t pid;
    int pipe;
  };

  [[noreturn]] static void run_child(const int* ends) {
    close(ends[1]);
    std::string word;
    for (char c = 0; read(ends[0], &c, 1) == 1 && c != '\n';) word += c;
    const std::size_t space = word.find(' ');
    if (space == std::string::npos) _exit(1);
    try {
      Receiver(word.substr(0, space), "127.0.0.1", std::stoi(word.substr(space + 1))).run();
    } catch (const std::exception& error) {
      fmt::print(stderr, "receiver: {}\n", error.what());
      _exit(1);
    }
    _exit(0);
  }

  std::vector<Child> children_;
};

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

/// One line of a table: the bare socket's and our MB/s, and their ratio in the same round.
void print_row(const char* what, std::size_t bytes, std::size_t moved, const std::vector<double>& raw,
               const std::vector<double>& ours, const std::string& format) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < raw.size(); ++i) ratios.push_back(raw[i] / ours[i]);
  const double mb = static_cast<double>(moved) / 1e6;
  const double raw_rate = mb / quartiles(raw).median;
  const double our_rate = mb / quartiles(ours).median;
  const Quartiles ratio = quartiles(ratios);
  if (format == "csv") {
    fmt::print("{},{},{:.1f},{:.1f},{:.3f},{:.3f},{:.3f}\n", what, bytes, raw_rate, our_rate, ratio.median, ratio.low,
               ratio.high);
  } else {
    fmt::print("{:<8} {:>10} {:>10.0f} {:>10.0f}   {:.2f} ({:.2f} to {:.2f})\n", what, bytes, raw_rate, our_rate,
               ratio.median, ratio.low, ratio.high);
  }
}

void measure(const TransportOptions& options, Sender& sender, RawSocket& raw) {
  if (options.format == "csv") {
    fmt::print("what,bytes,raw_mb_s,ours_mb_s,ratio,low,high\n");
  } else {
    fmt::print("{:<8} {:>10} {:>10} {:>10}   {}\n", "what", "bytes", "raw MB/s", "ours MB/s", "ours / raw (quartiles)");
  }
  const auto rounds = [&](const char* what, std::size_t bytes, std::size_t count, const auto& send) {
    std::vector<double> by_raw;
    std::vector<double> by_us;
    for (int round = -2; round < options.repeats; ++round) {  // two warm up
      const double raw_seconds = sender.send_raw(raw, count, bytes);
      const double our_seconds = send();
      if (round < 0) continue;
      by_raw.push_back(raw_seconds);
      by_us.push_back(our_seconds);
    }
    print_row(what, bytes, count * bytes, by_raw, by_us, options.format);
  };
  for (const std::size_t bytes : options.frames) {
    const std::size_t count = kStreamBytes / bytes;
    rounds("frames", bytes, count, [&] { return sender.send_frames(count, bytes); });
  }
  for (const std::size_t bytes : options.tensors) {
    const Tensor tensor(shape_of(bytes), 1.0F);
    rounds("tensor", bytes, 1, [&] { return sender.send_tensor(tensor); });
  }
}

void measure_fan_out(const TransportOptions& options) {
  fmt::print("{:>10} {:>10} {:>14} {:>16}\n", "receivers", "bytes", "MB/s in all", "sender's peak");
  for (int count = 1; count <= options.fan_out; count *= 2) {
    // A process of its own for each count: a peak never falls again.
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      Receivers receivers(count);
      Sender sender("tcp://127.0.0.1:*");
      receivers.start(sender.endpoint(), 0);
      sender.wait_for_receivers(count);
      const Tensor tensor(shape_of(options.tensors.back()), 1.0F);
      std::vector<double> rates;
      for (int round = 0; round < options.repeats; ++round) {
        rates.push_back(static_cast<double>(tensor.bytes()) * count / 1e6 / sender.send_tensor(tensor));
      }
      fmt::print("{:>10} {:>10} {:>14.0f} {:>12.0f} MiB\n", count, tensor.bytes(), quartiles(rates).median, peak_mib());
      sender.dismiss();
      std::fflush(stdout);
      // exit() would run destructors of what the parent owns.
      receivers.~Receivers();
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) fail("the process that sends to {} receivers failed", count);
  }
}

void check_sizes(const char* option, const std::vector<std::size_t>& sizes, std::size_t most) {
  for (const std::size_t bytes : sizes) {
    if (bytes < 65536 || bytes % 65536 != 0 || bytes > most) {
      fail("{} {}: expected multiples of 65536 up to {}", option, bytes, most);
    }
  }
}

void run_transport(const TransportOptions& options) {
  check_sizes("--frames", options.frames, kMostFrameBytes);
  check_sizes("--tensors", options.tensors, kMostBytes);
  if (!options.connect.empty()) {
    const auto [host, port] = RawSocket::split(options.connect);
    return Receiver(options.connect, host, port + 1).run();
  }
  if (options.fan_out > 0) return measure_fan_out(options);
  const bool remote = !options.listen.empty();
  Receivers receivers(remote ? 0 : 1);
  Sender sender(remote ? options.listen : "tcp://127.0.0.1:*");
  RawListener listener(remote ? RawSocket::split(options.listen).second + 1 : 0, remote);
  receivers.start(sender.endpoint(), listener.port());
  if (remote) fmt::print("on the other machine run: convoy-bench transport --connect tcp://THIS-HOST:PORT\n");
  sender.wait_for_receivers(1);
  RawSocket raw = listener.accept();
  measure(options, sender, raw);
  sender.dismiss();
}

}  // namespace

void add_transport(CLI::App& app) {
  auto options = std::make_shared<TransportOptions>();
  CLI::App& command = *app.add_subcommand(
      "transport",
      "bandwidth to another process (on loopback, or on another machine) beside a bare TCP socket: of a stream of frames of one "
      "size, and of one tensor from the sender's memory to the receiver's, cut, copied, sent, put together and answered");
  command.add_option("--frames", options->frames, "bytes of a frame, separated by commas, multiples of 65536")->delimiter(',')->capture_default_str();
  command.add_option("--tensors", options->tensors, "bytes of a tensor, separated by commas, multiples of 65536")->delimiter(',')->capture_default_str();
  command.add_option("--repeats", options->repeats, "rounds")->check(CLI::Range(1, 10000))->capture_default_str();
  command.add_option("--fan-out", options->fan_out, "instead: the last tensor to 1, 2, 4, ... local receivers up to this number, with the sender's peak memory")
      ->check(CLI::Range(0, 64));
  command.add_option("--listen", options->listen, "send to another machine that connects here, for example tcp://*:5580 (uses the next port as well)");
  command.add_option("--connect", options->connect, "receive from the machine that listens there");
  command.add_option("--format", options->format, "text or csv")->check(CLI::IsMember({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_transport(*options); });
}

}  // namespace convoy
