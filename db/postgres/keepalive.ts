/**
 * TCP keepalives of every connection. If a machine disappears without closing its connections, the other end notices within 30 s,
 * and PostgreSQL releases the machine's locks. With the kernel's defaults it takes more than two hours. The driver's end sends no
 * keepalives while sent bytes are unconfirmed; then `query_timeout` of the pools ends the statement.
 */

/** For the driver. After the delay, libuv sends up to ten probes, one a second. */
export const KEEPALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 } as const;

/** For the server. It also closes a connection whose sent bytes stay unconfirmed for 25 s. */
export const KEEPALIVE_OPTIONS =
  '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=25000';
