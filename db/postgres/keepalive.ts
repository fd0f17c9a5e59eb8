/**
 * TCP keepalives of every connection: both ends notice within 30 s that a machine disappeared without closing its connections,
 * and its locks are released. The kernel's own defaults are more than two hours. While the server has not confirmed sent bytes, the
 * driver's end sends no keepalives: the pools limit the time of a statement (`query_timeout`).
 */

/** For the driver. libuv then sends ten probes, one a second. */
export const KEEPALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 } as const;

/** For the server's end. It also ends a connection whose sent bytes stay unconfirmed for 25 s. */
export const KEEPALIVE_OPTIONS =
  '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=25000';
