/** Every probe, by group. A new probe is a row in one of these files; a new group is a row here. */
import { advisories } from './advisories.ts';
import { exhaustion } from './exhaustion.ts';
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
  readonly probes: readonly Probe[];
}

export const groups: readonly ProbeGroup[] = [
  { name: 'realm: constructors, evaluators, modules', goal: 'reach', probes: realm },
  { name: 'realm: errors, promises, proxies, prototypes', goal: 'reach', probes: membrane },
  { name: 'realm: the whole language, overriding, undeclared names', goal: 'reach', probes: wholeLanguage },
  { name: 'realm: the web’s classes, streams, messages, copies', goal: 'reach', probes: platform },
  { name: 'realm: advisories of other sandboxes', goal: 'reach', probes: advisories },
  {
    name: 'files, sockets, secrets, processes',
    goal: 'reach',
    probes: [...files, ...sockets, ...secrets, ...processes],
  },
  { name: 'Node: permission model, inner modules, descriptors', goal: 'reach', probes: node },
  { name: 'network, other processes, what the machine tells', goal: 'reach', probes: outside },
  { name: 'capabilities', goal: 'reach', probes: grants },
  { name: 'processor, memory, flooding', goal: 'exhaust', probes: exhaustion },
  { name: 'protocol', goal: 'forge', probes: protocol },
  { name: 'registration', goal: 'register', probes: registration },
];
