#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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

struct TransportOptions {
  std::vector<std::size_t> bytes{65536, 262144, 1048576, 4194304, 16777216, 67108864};
  int repeats = 15;
  int fan_out = 0;
  std::string listen;   ///< this machine sends, the other one connects
  std::string connect;  ///< this machine receives
  std::string format = "text";
};

/// A tensor of so many bytes, in maps of 16 KiB.
Shape shape_of(std::size_t bytes) { return {static_cast<int>(std::max<std::size_t>(1, bytes / 65536)), 4, 64, 64}; }

[[noreturn]] void timed_out(const char* what) { fail("the other side did not {} within {} s", what, kPatience.count()); }

// ---- the receiving side --------------------------------------------------------------------------------------------

/// Receives tensors, each announced by a Hold whose stage index says how many of the sizes' maps there are, until told bye.
void receive_all(const std::string& endpoint, const std::string& raw_host, int raw_port) {
  wire::ClientLink link(endpoint);
  link.send(Channel::data, {wire::Attach{"receiver"}, {}}, Clock::now() + kPatience);
  RawSocket raw = raw_port > 0 ? RawSocket::connect(raw_host, raw_port) : RawSocket();
  std::vector<float> buffer;
  while (true) {
    auto from = link.receive(Clock::now() + kPatience);
    if (!from) timed_out("send anything");
    if (std::holds_alternative<wire::Bye>(from->envelope.message)) return;
    const auto* backward = std::get_if<wire::Backward>(&from->envelope.message);
    const auto* forward = std::get_if<wire::Forward>(&from->envelope.message);
    if (backward == nullptr && forward == nullptr) continue;
    const std::size_t bytes = std::size_t{65536} * (backward != nullptr ? backward->stage_index : forward->stage_index);
    const Shape shape = shape_of(bytes);
    buffer.resize(shape.size());
    link.send(Channel::data, {wire::Done{}, {}}, Clock::now() + kPatience);
    if (backward != nullptr) {
      raw.receive(buffer.data(), bytes);
      raw.send("k", 1);
      continue;
    }
    wire::Assembler assembler(shape, buffer);
    while (!assembler.complete()) {
      from = link.receive(Clock::now() + kPatience);
      if (!from) timed_out("send a whole tensor");
      if (const auto* piece = std::get_if<wire::Piece>(&from->envelope.message)) {
        assembler.add(*piece, std::as_const(from->envelope.payload).floats());
      }
    }
    link.send(Channel::data, {wire::Done{}, {}}, Clock::now() + kPatience);
  }
}

// ---- the sending side ----------------------------------------------------------------------------------------------

struct Timing {
  std::vector<double> wire;
  std::vector<double> frames;
  std::vector<double> raw;
};

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
    announce(wire::Forward{static_cast<std::uint32_t>(tensor.bytes() / 65536)});
    const Stopwatch watch;
    send_frames(wire::make_pieces(tensor));
    return watch.seconds();
  }
  /// The same where the frames are made already, as for every receiver but the first, and for maps that pass through.
  double send_ready(const Tensor& tensor) {
    const std::vector<wire::Envelope> pieces = wire::make_pieces(tensor);
    announce(wire::Forward{static_cast<std::uint32_t>(tensor.bytes() / 65536)});
    const Stopwatch watch;
    send_frames(pieces);
    return watch.seconds();
  }
  double send_raw(RawSocket& raw, const Tensor& tensor) {
    announce(wire::Backward{static_cast<std::uint32_t>(tensor.bytes() / 65536)});
    const Stopwatch watch;
    raw.send(tensor.data(), tensor.bytes());
    char answer = 0;
    raw.receive(&answer, 1);
    return watch.seconds();
  }
  void dismiss() {
    for (const std::string& peer : peers_) link_.send(peer, Channel::data, {wire::Bye{"measured"}, {}}, Clock::now() + 1s);
    // Let the farewells leave before the socket closes.
    link_.receive(Clock::now() + 200ms);
  }

 private:
  void announce(const wire::Message& message) {
    for (const std::string& peer : peers_) link_.send(peer, Channel::data, {message, {}}, Clock::now() + kPatience);
    await_done();
  }
  void send_frames(const std::vector<wire::Envelope>& pieces) {
    for (const wire::Envelope& piece : pieces) {
      for (const std::string& peer : peers_) link_.send(peer, Channel::data, piece, Clock::now() + kPatience);
    }
    await_done();
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
      receive_all(word.substr(0, space), "127.0.0.1", std::stoi(word.substr(space + 1)));
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

void print_row(std::size_t bytes, const Timing& timing, const std::string& format) {
  std::vector<double> tensor_ratio;
  std::vector<double> frame_ratio;
  for (std::size_t i = 0; i < timing.raw.size(); ++i) {
    tensor_ratio.push_back(timing.raw[i] / timing.wire[i]);
    frame_ratio.push_back(timing.raw[i] / timing.frames[i]);
  }
  const double mb = static_cast<double>(bytes) / 1e6;
  const Quartiles raw = quartiles(timing.raw);
  const Quartiles wire = quartiles(timing.wire);
  const Quartiles frames = quartiles(timing.frames);
  const Quartiles a = quartiles(frame_ratio);
  const Quartiles b = quartiles(tensor_ratio);
  if (format == "csv") {
    fmt::print("{},{:.1f},{:.1f},{:.1f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f}\n", bytes, mb / raw.median,
               mb / frames.median, mb / wire.median, a.median, a.low, a.high, b.median, b.low, b.high);
  } else {
    fmt::print("{:>10} {:>11.0f} {:>11.0f} {:>11.0f}   {:.2f} ({:.2f} to {:.2f})   {:.2f} ({:.2f} to {:.2f})\n", bytes,
               mb / raw.median, mb / frames.median, mb / wire.median, a.median, a.low, a.high, b.median, b.low, b.high);
  }
}

void measure_sizes(const TransportOptions& options, Sender& sender, RawSocket& raw) {
  if (options.format == "csv") {
    fmt::print("bytes,raw_mb_s,frames_mb_s,tensor_mb_s,frames_to_raw,low,high,tensor_to_raw,low,high\n");
  } else {
    fmt::print("{:>10} {:>11} {:>11} {:>11}   {}\n", "bytes", "raw MB/s", "frames MB/s", "tensor MB/s",
               "frames / raw          tensor / raw (quartiles)");
  }
  for (const std::size_t bytes : options.bytes) {
    const Tensor tensor(shape_of(bytes), 1.0F);
    Timing timing;
    for (int round = -2; round < options.repeats; ++round) {  // two warm up
      const double by_raw = sender.send_raw(raw, tensor);
      const double by_frames = sender.send_ready(tensor);
      const double by_wire = sender.send_tensor(tensor);
      if (round < 0) continue;
      timing.raw.push_back(by_raw);
      timing.frames.push_back(by_frames);
      timing.wire.push_back(by_wire);
    }
    print_row(tensor.bytes(), timing, options.format);
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
      const Tensor tensor(shape_of(options.bytes.back()), 1.0F);
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

void run_transport(const TransportOptions& options) {
  for (const std::size_t bytes : options.bytes) {
    if (bytes < 65536 || bytes % 65536 != 0 || bytes > (std::size_t{1} << 30)) {
      fail("--bytes {}: expected multiples of 65536 up to 1 GiB", bytes);
    }
  }
  if (!options.connect.empty()) {
    const auto [host, port] = RawSocket::split(options.connect);
    return receive_all(options.connect, host, port + 1);
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
  measure_sizes(options, sender, raw);
  sender.dismiss();
}

}  // namespace

void add_transport(CLI::App& app) {
  auto options = std::make_shared<TransportOptions>();
  CLI::App& command = *app.add_subcommand(
      "transport",
      "moves tensors to another process (on loopback, or on another machine) and measures from the first send to the answer that "
      "all is there: through a raw TCP socket, buffer to buffer; as frames through our wire, assembled into a tensor; and as "
      "tensors, with the copy into the frames as well");
  command.add_option("--bytes", options->bytes, "sizes, separated by commas, multiples of 65536")->delimiter(',')->capture_default_str();
  command.add_option("--repeats", options->repeats, "rounds")->check(CLI::Range(1, 10000))->capture_default_str();
  command.add_option("--fan-out", options->fan_out, "instead: the last size to 1, 2, 4, ... local receivers up to this number, with the sender's peak memory")
      ->check(CLI::Range(0, 64));
  command.add_option("--listen", options->listen, "send to another machine that connects here, for example tcp://*:5580 (uses the next port as well)");
  command.add_option("--connect", options->connect, "receive from the machine that listens there");
  command.add_option("--format", options->format, "text or csv")->check(CLI::IsMember({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_transport(*options); });
}

}  // namespace convoy
