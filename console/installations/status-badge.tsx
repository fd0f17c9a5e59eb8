/** The state of an installation as a word and a colour, and why it is in that state. */

import { Alert, Text } from '@mantine/core';
import { hasRequiredChecks } from '../../sdk/contract/ending-checks.ts';
import { listMissing, UNCHANGED } from '../configuration/form-values.ts';
import type { Installation } from '../rest/installations.ts';
import { PageLink } from '../shell/page-link.tsx';
import { StatusDot, type Tone } from '../shell/status-dot.tsx';
import { IconAlertTriangle, IconInfoCircle } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';

type Condition = Installation['condition'];
interface OfCondition {
  readonly condition: Condition;
}

const WORDS: Record<Condition['state'], { text: string; tone: Tone }> = {
  ready: { text: 'ready', tone: 'good' },
  restarting: { text: 'restarting', tone: 'fair' },
  update_failed: { text: 'update failed', tone: 'fair' },
  failed: { text: 'failed', tone: 'bad' },
  needs_configuration: { text: 'needs settings', tone: 'fair' },
  paused: { text: 'paused', tone: 'quiet' },
  blocked: { text: 'blocked', tone: 'bad' },
  uninstalling: { text: 'uninstalling', tone: 'quiet' },
};

export function StatusBadge({ condition }: OfCondition) {
  const { text, tone } = WORDS[condition.state];
  return <StatusDot tone={tone}>{text}</StatusDot>;
}

/** A ready plugin needs no process until something calls it, so “stopped” would read as a fault. */
export const describeProcess = ({ condition, runtime }: Installation): string =>
  condition.state === 'ready' && runtime.state === 'stopped' ? 'starts on demand' : runtime.state;

/** Whether it, or the version that it moves to, lacks a required value. */
function isMissing(installation: Installation): boolean {
  const { settings, secrets } = listMissing(installation.configuration, UNCHANGED, installation);
  return settings.length + secrets.length > 0;
}

const NOT_RUNNING: readonly Condition['state'][] = ['restarting', 'failed', 'needs_configuration', 'blocked'];

/** Whether messages and turns are stopped because the plugin, which their user requires, does not run. A pause stops none. */
export const isStopping = (installation: Installation): boolean =>
  hasRequiredChecks(installation) &&
  installation.status !== 'paused' &&
  NOT_RUNNING.includes(installation.condition.state);

/** Shows cause and next step. Shows nothing if there is nothing to explain. */
export function ConditionAlert({ installation }: { readonly installation: Installation }) {
  const { state, cause, nextStep, action } = installation.condition;
  if (cause === null) return null;
  const isFillable = installation.own && isMissing(installation);
  const stops = isStopping(installation);
  const isTrouble = WORDS[state].tone === 'bad' || stops;
  return (
    <Alert
      color={isTrouble ? 'red' : 'yellow'}
      title={isTrouble ? 'Not running' : 'Note'}
      className="foreign"
      icon={isTrouble ? <IconAlertTriangle /> : <IconInfoCircle />}
    >
      {stops ? (
        <Text size="sm" fw={600}>
          {installation.own ? 'You require it' : 'Its user requires it'}: until it runs, the messages and turns that it
          must check are stopped. A pause lets them continue without its checks.
        </Text>
      ) : null}
      <span>{escapeText(cause)}</span>
      {nextStep === null || (isFillable && action === 'configure') ? null : <Text size="sm">{nextStep}</Text>}
      {isFillable ? (
        <>
          {' '}
          <PageLink
            to="/installations/$id"
            params={{ id: installation.id }}
            search={{ tab: 'settings' }}
            resetScroll={false}
            underline="always"
            size="sm"
          >
            Go to its settings
          </PageLink>
        </>
      ) : null}
    </Alert>
  );
}
