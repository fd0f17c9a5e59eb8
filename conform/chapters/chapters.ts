/** Every chapter of the specification and the contract, in their order. */
import type { Chapter } from '../row.ts';
import { channels } from './channel-rows.ts';
import { endpoints } from './endpoint-rows.ts';
import { errors } from './error-rows.ts';
import { foreign } from './foreign-rows.ts';
import { hooks } from './hook-rows.ts';
import { host } from './host-rows.ts';
import { packages } from './package-rows.ts';
import { quotas } from './quota-rows.ts';
import { records } from './record-rows.ts';
import { resources } from './resource-rows.ts';
import { rules } from './rule-rows.ts';
import { sessions } from './session-rows.ts';
import { surface } from './surface-rows.ts';
import { transitions } from './transition-rows.ts';

export const chapters: readonly Chapter[] = [
  ...[resources, surface, transitions, endpoints, rules],
  ...[errors, records, packages, hooks, host, channels, sessions, foreign, quotas],
];
