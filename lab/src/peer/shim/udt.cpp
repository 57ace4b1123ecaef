// UDT behind plain functions: one connection, unordered reliable messages, calls that block.
#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>
#include <udt/udt.h>

static sockaddr_in address(unsigned ip, unsigned short port) {
    sockaddr_in to;
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(ip);
    to.sin_port = htons(port);
    return to;
}

static UDTSOCKET tuned(int buffer) {
    UDT::startup();
    UDTSOCKET sock = UDT::socket(AF_INET, SOCK_DGRAM, 0);
    UDT::setsockopt(sock, 0, UDT_SNDBUF, &buffer, sizeof buffer);
    UDT::setsockopt(sock, 0, UDP_SNDBUF, &buffer, sizeof buffer);
    return sock;
}

extern "C" {
// Addresses in host byte order. Less than 0: it failed.
int lab_udt_listen(unsigned ip, unsigned short port, int buffer) {
    UDTSOCKET sock = tuned(buffer);
    sockaddr_in at = address(ip, port);
    if (UDT::bind(sock, reinterpret_cast<sockaddr *>(&at), sizeof at) == UDT::ERROR) return -1;
    return UDT::listen(sock, 1) == UDT::ERROR ? -1 : sock;
}

int lab_udt_accept(int listener) {
    sockaddr_in from;
    int length = sizeof from;
    UDTSOCKET sock = UDT::accept(listener, reinterpret_cast<sockaddr *>(&from), &length);
    return sock == UDT::INVALID_SOCK ? -1 : sock;
}

int lab_udt_connect(unsigned ip, unsigned short port, int buffer) {
    UDTSOCKET sock = tuned(buffer);
    sockaddr_in to = address(ip, port);
    return UDT::connect(sock, reinterpret_cast<sockaddr *>(&to), sizeof to) == UDT::ERROR ? -1 : sock;
}

int lab_udt_send(int sock, const char *data, int length) {
    return UDT::sendmsg(sock, data, length, -1, false);
}

int lab_udt_receive(int sock, char *buffer, int room) {
    return UDT::recvmsg(sock, buffer, room);
}
}
