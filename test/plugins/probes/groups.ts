/** Every probe, by group. A new probe is a row in one of these files; a new group is a row here. */
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { advisories } from './advisories.ts';
import { exhaustion } from './exhaustion.ts';
import { frameRows, granted } from './granted.ts';
import { files, processes, secrets, sockets } from './machine.ts';
import { membrane } from './membrane.ts';
import { node } from './node.ts';
import { outside } from './outside.ts';
import { platform } from './platform.ts';
import type { Probe } from './probe.ts';
import { grants, protocol } from './protocol.ts';
import { realm } from './realm.ts';
import { registration } from './registration.ts';
import { wholeLanguage } from './whole-language.ts';

/**
 * How an escape is known. reach: the code answers something. exhaust: the call does not end in time. forge: the
 * supervisor believes it. register: it can be called.
 */
export type Goal = 'reach' | 'exhaust' | 'forge' | 'register';
export interface ProbeGroup {
  readonly name: string;
  readonly goal: Goal;
  /** The granted host calls. Default: every one. */
  readonly members?: readonly string[];
  readonly probes: readonly Probe[];
}

export const EVERY_MEMBER: readonly string[] = Object.keys(hostCalls);
/** For probes of what is not granted, and of the process itself. */
const ONE_MEMBER = ['secrets.get'];

export const groups: readonly ProbeGroup[] = [
  { name: 'realm: constructors, evaluators, modules', goal: 'reach', probes: realm },
  { name: 'realm: errors, promises, proxies, prototypes', goal: 'reach', probes: membrane },
  { name: 'realm: the whole language, overriding, undeclared names', goal: 'reach', probes: wholeLanguage },
  { name: 'realm: the web’s classes, streams, messages, copies', goal: 'reach', probes: platform },
  { name: 'realm: advisories of other sandboxes', goal: 'reach', probes: advisories },
  {
    name: 'files, sockets, secrets, processes',
    goal: 'reach',
    // `fetch` would answer.
    members: ONE_MEMBER,
    probes: [...files, ...sockets, ...secrets, ...processes],
  },
  { name: 'Node: permission model, inner modules, descriptors', goal: 'reach', probes: node },
  { name: 'network, other processes, what the machine tells', goal: 'reach', probes: outside },
  { name: 'host calls, fetch and contexts, all granted', goal: 'reach', probes: granted },
  { name: 'frames of host calls and answers', goal: 'reach', probes: frameRows },
  { name: 'capabilities', goal: 'reach', members: ONE_MEMBER, probes: grants },
  { name: 'processor, memory, flooding', goal: 'exhaust', members: ONE_MEMBER, probes: exhaustion },
  { name: 'protocol', goal: 'forge', members: ONE_MEMBER, probes: protocol },
  { name: 'registration', goal: 'register', members: ONE_MEMBER, probes: registration },
];
