#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "bench/commands.hpp"
#include "bench/raw_socket.hpp"
#include "bench/statistics.hpp"
#include "bench/transfer.hpp"
#include "core/error.hpp"

namespace convoy {
namespace {

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
      receive_transfers(word.substr(0, space), "127.0.0.1", std::stoi(word.substr(space + 1)));
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

void measure(const TransportOptions& options, TransferSender& sender, RawSocket& raw) {
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
    const Tensor tensor(transfer_shape(bytes), 1.0F);
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
      TransferSender sender("tcp://127.0.0.1:*");
      receivers.start(sender.endpoint(), 0);
      sender.wait_for_receivers(count);
      const Tensor tensor(transfer_shape(options.tensors.back()), 1.0F);
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
  check_sizes("--tensors", options.tensors, kMostTransferBytes);
  if (!options.connect.empty()) {
    const auto [host, port] = RawSocket::split(options.connect);
    return receive_transfers(options.connect, host, port + 1);
  }
  if (options.fan_out > 0) return measure_fan_out(options);
  const bool remote = !options.listen.empty();
  Receivers receivers(remote ? 0 : 1);
  TransferSender sender(remote ? options.listen : "tcp://127.0.0.1:*");
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
  CLI::App& command = *app.add_subcommand("transport",
                                          "bandwidth to another process (on loopback, or on another machine) beside a "
                                          "bare TCP socket: of a stream of frames of one "
                                          "size, and of one tensor from the sender's memory to the receiver's, cut, "
                                          "copied, sent, put together and answered");
  command.add_option("--frames", options->frames, "bytes of a frame, separated by commas, multiples of 65536")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--tensors", options->tensors, "bytes of a tensor, separated by commas, multiples of 65536")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--repeats", options->repeats, "rounds")->check(CLI::Range(1, 10000))->capture_default_str();
  command
      .add_option(
          "--fan-out", options->fan_out,
          "instead: the last tensor to 1, 2, 4, ... local receivers up to this number, with the sender's peak memory")
      ->check(CLI::Range(0, 64));
  command.add_option(
      "--listen", options->listen,
      "send to another machine that connects here, for example tcp://*:5580 (uses the next port as well)");
  command.add_option("--connect", options->connect, "receive from the machine that listens there");
  command.add_option("--format", options->format, "text or csv")
      ->check(CLI::IsMember({"text", "csv"}))
      ->capture_default_str();
  command.callback([options] { run_transport(*options); });
}

}  // namespace convoy
