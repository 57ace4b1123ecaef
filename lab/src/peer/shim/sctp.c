/* usrsctp behind plain functions: one association over UDP, unordered messages, calls that block. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <usrsctp.h>

#define ENCAPSULATION 9899
/* As many as any workload has. */
#define STREAMS 128

static struct sockaddr_in address(unsigned ip, unsigned short port) {
    struct sockaddr_in to;
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(ip);
    to.sin_port = htons(port);
    return to;
}

static struct socket *tuned(void) {
    struct socket *sock = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (sock == NULL) return NULL;
    struct sctp_udpencaps encaps;
    memset(&encaps, 0, sizeof encaps);
    encaps.sue_address.ss_family = AF_INET;
    encaps.sue_port = htons(ENCAPSULATION);
    usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps);
    struct sctp_initmsg streams;
    memset(&streams, 0, sizeof streams);
    streams.sinit_num_ostreams = STREAMS;
    streams.sinit_max_instreams = STREAMS;
    usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams);
    return sock;
}

static struct socket *nodelay(struct socket *sock) {
    int on = 1;
    if (sock != NULL) usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
    return sock;
}

/* Buffers in bytes. */
void lab_sctp_start(unsigned send, unsigned receive) {
    usrsctp_init(ENCAPSULATION, NULL, NULL);
    usrsctp_sysctl_set_sctp_sendspace(send);
    usrsctp_sysctl_set_sctp_recvspace(receive);
    usrsctp_sysctl_set_sctp_ecn_enable(0);
}

/* Addresses in host byte order. Null: it failed. */
struct socket *lab_sctp_listen(unsigned ip, unsigned short port) {
    struct socket *sock = tuned();
    struct sockaddr_in at = address(ip, port);
    if (sock == NULL || usrsctp_bind(sock, (struct sockaddr *)&at, sizeof at) < 0) return NULL;
    return usrsctp_listen(sock, 1) < 0 ? NULL : sock;
}

struct socket *lab_sctp_accept(struct socket *listener) {
    return nodelay(usrsctp_accept(listener, NULL, NULL));
}

struct socket *lab_sctp_connect(unsigned ip, unsigned short port) {
    struct socket *sock = tuned();
    struct sockaddr_in to = address(ip, port);
    if (sock == NULL || usrsctp_connect(sock, (struct sockaddr *)&to, sizeof to) < 0) return NULL;
    return nodelay(sock);
}

/* Less than 0: an error. */
long lab_sctp_send(struct socket *sock, const void *data, size_t length) {
    struct sctp_sndinfo info;
    memset(&info, 0, sizeof info);
    info.snd_flags = SCTP_UNORDERED;
    return usrsctp_sendv(sock, data, length, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0);
}

/* In the order of the stream. Less than 0: an error. */
long lab_sctp_send_on(struct socket *sock, const void *data, size_t length, unsigned short stream) {
    struct sctp_sndinfo info;
    memset(&info, 0, sizeof info);
    info.snd_sid = stream;
    return usrsctp_sendv(sock, data, length, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0);
}

/* The length of the next message; 0 or less: the end. */
long lab_sctp_receive(struct socket *sock, void *buffer, size_t room) {
    struct sockaddr_storage from;
    struct sctp_rcvinfo info;
    socklen_t from_length = sizeof from, info_length = sizeof info;
    unsigned type = 0;
    int flags = 0;
    return usrsctp_recvv(sock, buffer, room, (struct sockaddr *)&from, &from_length, &info, &info_length, &type, &flags);
}
