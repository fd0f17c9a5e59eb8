/** Warns about supervisors of several machines that advertise an address of their own machine only. */
import type { Peer } from '../../db/cluster/supervisors.ts';
import { mayShareLoopback } from './local-process.ts';

const LOOPBACK = /^http:\/\/(127\.|localhost:|\[::1\])/;

/**
 * Describes loopback addresses that lead nowhere: on another machine they lead to that machine itself. Call it when this
 * supervisor has joined; each one that joins later does the same.
 *
 * @param id of this supervisor
 * @returns one sentence for each; empty on one machine
 */
export function describeLoopbackPeers(id: number, peers: readonly Peer[]): readonly string[] {
  const elsewhere = peers.filter((peer) => peer.id !== id && peer.expiresInMs > 0 && !mayShareLoopback(peer.process));
  if (elsewhere.length === 0) return [];
  return peers
    .filter((peer) => (peer.id === id || elsewhere.includes(peer)) && LOOPBACK.test(peer.address))
    .map(({ id: peerId, address }) => {
      const which = peerId === id ? 'This supervisor' : `Supervisor ${peerId}`;
      return `${which} has the address ${address}, which other machines cannot reach, but supervisors run on several: set PEER_HOST on its machine to its address in the private network.`;
    });
}
