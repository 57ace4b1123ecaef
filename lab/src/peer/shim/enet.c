/* ENet behind plain functions: one host, one other end, reliable packets. */
#include <enet/enet.h>
#include <stdlib.h>
#include <string.h>

struct lab_enet {
    ENetHost *host;
    ENetPeer *peer;
    size_t under_way;
};

static void freed(ENetPacket *packet) {
    --*(size_t *)packet->userData;
}

/* Addresses in host byte order; a remote port of 0 waits. Null: it failed. */
struct lab_enet *lab_enet_open(unsigned local_ip, unsigned short local_port, unsigned remote_ip,
                               unsigned short remote_port, size_t channels) {
    if (enet_initialize() != 0) return NULL;
    struct lab_enet *self = calloc(1, sizeof *self);
    if (self == NULL) return NULL;
    ENetAddress local = {ENET_HOST_TO_NET_32(local_ip), local_port};
    self->host = enet_host_create(&local, 1, channels, 0, 0);
    if (self->host == NULL) return NULL;
    enet_socket_set_option(self->host->socket, ENET_SOCKOPT_RCVBUF, 4 << 20);
    enet_socket_set_option(self->host->socket, ENET_SOCKOPT_SNDBUF, 4 << 20);
    if (remote_port != 0) {
        ENetAddress remote = {ENET_HOST_TO_NET_32(remote_ip), remote_port};
        if (enet_host_connect(self->host, &remote, channels, 0) == NULL) return NULL;
    }
    return self;
}

/* Waits up to so many ms for the next event. Returns the length of a packet, copied to `buffer`; 0: nothing; -1: the
   other end is connected; -2: it is gone; -3: an error. */
int lab_enet_service(struct lab_enet *self, unsigned wait, unsigned char *buffer, size_t room) {
    ENetEvent event;
    int result = enet_host_service(self->host, &event, wait);
    if (result < 0) return -3;
    if (result == 0) return 0;
    switch (event.type) {
    case ENET_EVENT_TYPE_CONNECT:
        self->peer = event.peer;
        return -1;
    case ENET_EVENT_TYPE_DISCONNECT:
        return -2;
    case ENET_EVENT_TYPE_RECEIVE: {
        size_t length = event.packet->dataLength;
        int fits = length <= room;
        if (fits) memcpy(buffer, event.packet->data, length);
        enet_packet_destroy(event.packet);
        return fits ? (int)length : -3;
    }
    default:
        return 0;
    }
}

/* Queues a reliable packet. 0: done. */
int lab_enet_send(struct lab_enet *self, unsigned char channel, const unsigned char *data, size_t length) {
    ENetPacket *packet = enet_packet_create(data, length, ENET_PACKET_FLAG_RELIABLE);
    if (packet == NULL) return -1;
    packet->userData = &self->under_way;
    packet->freeCallback = freed;
    ++self->under_way;
    return enet_peer_send(self->peer, channel, packet);
}

/* Packets that are queued or not acknowledged. */
size_t lab_enet_under_way(const struct lab_enet *self) {
    return self->under_way;
}
