// Commands and HTTP requests of a real machine: good answers, and everything that can be wrong with one.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "core/stopwatch.hpp"
#include "energy/machine.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy::energy {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Command, GivesItsOutput) {
  EXPECT_EQ(output_of({"printf", "a%sc\\n", "b"}, 5), "abc\n");
  EXPECT_EQ(output_of({"true"}, 5), "");
}

TEST(Command, CountsItsProcessorTime) {
  const double before = command_seconds();
  EXPECT_EQ(output_of({"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $i"}, 60), "100000\n");
  EXPECT_GT(command_seconds(), before + 0.01);
}

TEST(Command, FailuresNameIt) {
  EXPECT_THAT([] { output_of({"no-such-command-of-convoy"}, 5); },
              ThrowsMessage<Error>(HasSubstr("no-such-command-of-convoy")));
  EXPECT_THAT([] { output_of({"false"}, 5); }, ThrowsMessage<Error>("the command false failed"));
}

TEST(Command, IsEndedAtTheDeadline) {
  const Stopwatch watch;
  EXPECT_THAT([] { output_of({"sleep", "60"}, 0.2); }, ThrowsMessage<Error>(HasSubstr("no whole answer within 0.2 s")));
  EXPECT_LT(watch.seconds(), 10);
}

TEST(Command, WithEndlessOutputIsEnded) {
  EXPECT_THAT([] { output_of({"yes"}, 30); }, ThrowsMessage<Error>(HasSubstr("no whole answer")));
}

/// Answers one request with a text, after a wait, and closes the connection unless it is to stay open.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer, bool stays_open = false)
      : answer_(std::move(answer)), stays_open_(stays_open) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 1) != 0)
      fail("no socket");
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    host = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~OneAnswer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
    if (peer_ >= 0) ::close(peer_);
  }

  std::string host;
  std::string request;

 private:
  void serve() {
    peer_ = ::accept(listener_, nullptr, nullptr);
    if (peer_ < 0) return;
    std::array<char, 1024> text{};
    const ssize_t got = ::recv(peer_, text.data(), text.size(), 0);
    request.assign(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    std::size_t sent = 0;
    while (sent < answer_.size()) {
      const ssize_t part = ::send(peer_, answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
      if (part <= 0) break;
      sent += static_cast<std::size_t>(part);
    }
    if (!stays_open_) ::shutdown(peer_, SHUT_RDWR);
  }

  std::string answer_;
  bool stays_open_;
  int listener_ = -1;
  int peer_ = -1;
  std::thread thread_;
};

TEST(Http, GivesTheBody) {
  std::string request;
  {
    OneAnswer server("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":1}");
    EXPECT_EQ(http_get(server.host, "/rpc/x?id=0", 5), "{\"a\":1}");
    request = server.request;
  }
  EXPECT_THAT(request, HasSubstr("GET /rpc/x?id=0 HTTP/1.0\r\nHost: 127.0.0.1:"));
}

TEST(Http, DoesNotWaitForTheEndOfAConnectionThatStaysOpen) {
  const OneAnswer server("HTTP/1.1 200 OK\r\ncontent-Length: 7\r\n\r\n{\"a\":1}", true);
  EXPECT_EQ(http_get(server.host, "/", 30), "{\"a\":1}");
}

TEST(Http, AnswersThatAreNone) {
  const auto expect = [](const std::string& answer, const std::string& why) {
    const OneAnswer server(answer);
    EXPECT_THAT([&] { http_get(server.host, "/x", 5); }, ThrowsMessage<Error>(HasSubstr(why))) << answer.substr(0, 40);
  };
  expect("SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP; it answers 'SSH-2.0-OpenSSH_9.2");
  expect("", "does not speak HTTP");
  expect("HTTP/1.1 200 OK\r\n", "does not speak HTTP");
  expect("HTTP/1.1 404 Not Found\r\n\r\nno", "answers 'HTTP/1.1 404 Not Found' to /x");
  expect("HTTP/1.1\r\n\r\n", "answers 'HTTP/1.1'");
  expect("HTTP/1.1 401 Unauthorized\r\n\r\n", "asks for a password");
  expect("HTTP/1.1 200 OK\r\n\r\n" + std::string(100000, 'x'), "sends more than 65536 bytes");
}

TEST(Http, ServerThatIsSilentOrMissing) {
  const Stopwatch watch;
  {
    const OneAnswer server("", true);
    EXPECT_THAT([&] { http_get(server.host, "/", 0.2); }, ThrowsMessage<Error>(HasSubstr("does not answer in time")));
  }
  std::string closed;
  {
    const OneAnswer server("HTTP/1.1 200 OK\r\n\r\n");
    closed = server.host;
    http_get(closed, "/", 5);
  }
  EXPECT_THAT([&] { http_get(closed, "/", 5); }, ThrowsMessage<Error>(HasSubstr("cannot be reached")));
  EXPECT_LT(watch.seconds(), 10);
}

TEST(Http, NamesAreNoAddresses) {
  for (const char* host : {"plug.local", "", "[::1", "1.2.3.4:http", "300.1.1.1"}) {
    EXPECT_THAT([&] { http_get(host, "/", 5); }, ThrowsMessage<Error>(HasSubstr("is no address in numbers"))) << host;
  }
}

TEST(Machine, ReadsFilesWithoutTheBlanksAtTheirEnd) {
  const TemporaryFolder folder;
  const Machine machine(folder.path());
  write_file(folder.path() + "/a", {'1', '2', '\0', ' ', '\n'});
  EXPECT_EQ(machine.read("/a"), "12");
  EXPECT_EQ(machine.tail("/a", 1), std::string("2\0 \n", 4));
  EXPECT_THAT([&] { machine.tail("/a", 6); }, ThrowsMessage<Error>(HasSubstr("has become shorter")));
  write_file(folder.path() + "/large", Bytes(100000, '1'));
  EXPECT_EQ(machine.read("/large").size(), 65536U);
  EXPECT_THAT([&] { machine.read("/none"); }, ThrowsMessage<Unreadable>("/none: No such file or directory"));
  EXPECT_THAT([&] { machine.read("/"); }, ThrowsMessage<Unreadable>(HasSubstr("Is a directory")));
}

TEST(Machine, OrdersNamesByTheirNumbers) {
  const TemporaryFolder folder;
  for (const char* name : {"hwmon10", "hwmon2", "hwmon9", "x"})
    std::filesystem::create_directory(folder.path() + "/" + name);
  EXPECT_THAT(Machine(folder.path()).names("/"), testing::ElementsAre("hwmon2", "hwmon9", "hwmon10", "x"));
  EXPECT_THROW(Machine(folder.path()).names("/none"), Unreadable);
}

TEST(Machine, NumbersAreWholeTexts) {
  EXPECT_EQ(number_in(" -12.5", "x"), -12.5);
  for (const char* text : {"", " ", "N/A", "12 W", "nan", "inf", "1e999", "0x10", "--1"}) {
    EXPECT_THAT([&] { number_in(text, "the file"); }, ThrowsMessage<Error>(HasSubstr("the file: expected a number")))
        << text;
  }
}

}  // namespace
}  // namespace convoy::energy
