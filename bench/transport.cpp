#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "bench/commands.hpp"
#include "bench/raw_socket.hpp"
#include "bench/receivers.hpp"
#include "bench/statistics.hpp"
#include "bench/transfer.hpp"
#include "core/error.hpp"
#include "wire/keys.hpp"

namespace convoy {
namespace {

struct TransportOptions {
  std::vector<std::size_t> frames{65536, 262144, 1048576, 4194304, 8388608};
  std::vector<std::size_t> tensors{65536, 262144, 1048576, 4194304, 16777216, 67108864};
  int repeats = 15;
  int fan_out = 0;
  std::string listen;   ///< this machine sends to a machine that connects here
  std::string connect;  ///< this machine receives from a machine that listens there
  bool encrypted = false;
  std::string format = "text";
};

/// Bytes of one stream of frames, long enough that its start does not matter.
constexpr std::size_t kStreamBytes = std::size_t{128} << 20;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

/// Prints one row of a table: the MB/s of both, and their ratio round by round.
void print_row(const char* what, std::size_t bytes, std::size_t moved, const std::vector<double>& base,
               const std::vector<double>& ours, const std::string& format) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < base.size(); ++i) ratios.push_back(base[i] / ours[i]);
  const double mb = static_cast<double>(moved) / 1e6;
  const double base_rate = mb / quartiles(base).median;
  const double our_rate = mb / quartiles(ours).median;
  const Quartiles ratio = quartiles(ratios);
  if (format == "csv") {
    fmt::print("{},{},{:.1f},{:.1f},{:.3f},{:.3f},{:.3f}\n", what, bytes, base_rate, our_rate, ratio.median, ratio.low,
               ratio.high);
  } else {
    fmt::print("{:<8} {:>10} {:>10.0f} {:>10.0f}   {:.2f} ({:.2f} to {:.2f})\n", what, bytes, base_rate, our_rate,
               ratio.median, ratio.low, ratio.high);
  }
}

/// Moves `count` pieces of `bytes` bytes and returns the seconds.
using Send = std::function<double(std::size_t count, std::size_t bytes)>;

/// Prints the column names of print_row().
void print_head(const TransportOptions& options, const char* base, const char* ours) {
  if (options.format == "csv") {
    fmt::print("what,bytes,{}_mb_s,{}_mb_s,ratio,low,high\n", base, ours);
  } else {
    fmt::print("{:<8} {:>10} {:>10} {:>10}   {} / {} (quartiles)\n", "what", "bytes", fmt::format("{} MB/s", base),
               fmt::format("{} MB/s", ours), ours, base);
  }
}

/// Measures frames or tensors in rounds, with both methods in each round.
void measure(const TransportOptions& options, const char* what, const std::vector<std::size_t>& sizes,
             std::size_t most_bytes, const Send& base, const Send& ours) {
  for (const std::size_t bytes : sizes) {
    const std::size_t count = std::max<std::size_t>(1, most_bytes / bytes);
    std::vector<double> base_seconds;
    std::vector<double> our_seconds;
    for (int round = -2; round < options.repeats; ++round) {  // two rounds warm up
      const double first = base(count, bytes);
      const double second = ours(count, bytes);
      if (round < 0) continue;
      base_seconds.push_back(first);
      our_seconds.push_back(second);
    }
    print_row(what, bytes, count * bytes, base_seconds, our_seconds, options.format);
  }
}

Send frames_of(TransferSender& sender) {
  return [&sender](std::size_t count, std::size_t bytes) { return sender.send_frames(count, bytes); };
}
Send tensors_of(TransferSender& sender) {
  return [&sender](std::size_t, std::size_t bytes) { return sender.send_tensor(Tensor(transfer_shape(bytes), 1.0F)); };
}

/// Compares plain and encrypted links to receivers on this machine.
void measure_encryption(const TransportOptions& options) {
  Receivers of_plain(1);
  Receivers of_encrypted(1);
  const wire::MasterKeys keys{wire::make_key_pair(), wire::make_key_pair()};
  TransferSender plain("tcp://127.0.0.1:*");
  TransferSender encrypted("tcp://127.0.0.1:*", keys);
  of_plain.start(plain.endpoint(), 0);
  of_encrypted.start(encrypted.endpoint(), 0, to_text(keys.join_key()));
  plain.wait_for_receivers(1);
  encrypted.wait_for_receivers(1);
  print_head(options, "plain", "encrypted");
  measure(options, "frames", options.frames, kStreamBytes, frames_of(plain), frames_of(encrypted));
  measure(options, "tensor", options.tensors, 0, tensors_of(plain), tensors_of(encrypted));
  plain.dismiss();
  encrypted.dismiss();
}

void measure_fan_out(const TransportOptions& options) {
  fmt::print("{:>10} {:>10} {:>14} {:>16}\n", "receivers", "bytes", "MB/s in all", "sender's peak");
  for (int count = 1; count <= options.fan_out; count *= 2) {
    // Each count runs in a process of its own, because peak memory never falls.
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
      // exit() would run destructors of the parent's objects.
      receivers.~Receivers();
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) fail("the process that sends to {} receivers failed; its message is above", count);
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
  if (options.encrypted) return measure_encryption(options);
  const bool remote = !options.listen.empty();
  Receivers receivers(remote ? 0 : 1);
  TransferSender sender(remote ? options.listen : "tcp://127.0.0.1:*");
  RawListener listener(remote ? RawSocket::split(options.listen).second + 1 : 0, remote);
  receivers.start(sender.endpoint(), listener.port());
  if (remote) fmt::print(stderr, "on the other machine run: convoy-bench transport --connect tcp://THIS-HOST:PORT\n");
  sender.wait_for_receivers(1);
  RawSocket raw = listener.accept();
  const Send by_socket = [&](std::size_t count, std::size_t bytes) { return sender.send_raw(raw, count, bytes); };
  print_head(options, "raw", "ours");
  measure(options, "frames", options.frames, kStreamBytes, by_socket, frames_of(sender));
  measure(options, "tensor", options.tensors, 0, by_socket, tensors_of(sender));
  sender.dismiss();
}

}  // namespace

void add_transport(CLI::App& app) {
  auto options = std::make_shared<TransportOptions>();
  CLI::App& command = *app.add_subcommand("transport",
                                          "bandwidth to another process, on loopback or on another machine, compared "
                                          "with a bare TCP socket: of a stream of equal frames, and of one tensor from "
                                          "the sender's memory to the receiver's, including dividing, copying, "
                                          "assembling and the answer");
  command.add_option("--frames", options->frames, "bytes of a frame, separated by commas, multiples of 65536")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--tensors", options->tensors, "bytes of a tensor, separated by commas, multiples of 65536")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--repeats", options->repeats, "rounds")->check(whole_number(1, 10000))->capture_default_str();
  command
      .add_option("--fan-out", options->fan_out,
                  "send the last tensor to 1, 2, 4, ... local receivers up to this number instead, and print the "
                  "sender's peak memory")
      ->check(whole_number(0, 64));
  command.add_flag("--encrypted", options->encrypted,
                   "compare encrypted with plain links instead, both to processes of this machine");
  command.add_option(
      "--listen", options->listen,
      "send to another machine that connects here, for example tcp://*:5580; the next port is used as well");
  command.add_option("--connect", options->connect, "receive from the machine that listens there");
  command.add_option("--format", options->format, "text or csv")->check(one_of({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_transport(*options); });
}

}  // namespace convoy
