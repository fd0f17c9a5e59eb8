/** Asks for consent to an update: lists added and removed access and accepts exactly that version. */

import { Alert, Box, Button, Card, Checkbox, Group, Stack, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { type ReactNode, useEffect, useState } from 'react';
import { listEndingChecks } from '../../sdk/contract/ending-checks.ts';
import { ReachList } from '../catalog/reach-list.tsx';
import { labelRefusal } from '../configuration/field-errors.ts';
import { FieldInputs } from '../configuration/field-inputs.tsx';
import {
  type FormValues,
  hasSecrets,
  isChanged,
  NOTHING_STORED,
  pickFields,
  UNCHANGED,
} from '../configuration/form-values.ts';
import { saveConfiguration } from '../configuration/save-configuration.ts';
import { readBody, rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { getErrorMessage, UnreachableError } from '../rest/problem.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { UnsavedGuard } from '../shell/unsaved-guard.tsx';
import { IconAlertTriangle, IconCheck, IconMinus, IconPlus, IconShieldQuestion } from '../style/icons.tsx';
import { useDeclinedUpdate } from './declined-updates.ts';
import type { UnsavedValues } from './typed-values.ts';
import { UpdateChanges, useUpdateChanges } from './update-changes.tsx';

type Pending = NonNullable<Installation['pendingUpdate']>;

interface UpdateConsentProps {
  readonly installation: Installation;
  /** Called with what could not be saved for an accepted update. */
  readonly onUnsaved: (unsaved: UnsavedValues) => void;
}

const GONE =
  'The update no longer waits for you: it was accepted, or is not offered any more. What you entered for it is not saved.';

export function UpdateConsent({ installation, onUnsaved }: UpdateConsentProps) {
  const { id, pendingUpdate } = installation;
  const { declined, decline } = useDeclinedUpdate(id);
  // Here, so that what is typed stays when the user declines the update and looks at it again, or when a newer version takes its place.
  const [entered, setEntered] = useState<Entered>({ versionId: null, values: UNCHANGED });
  const [isAccepting, setIsAccepting] = useState(false);
  const isLeft = !pendingUpdate && !isAccepting && isChanged(entered.values) && entered.versionId !== declined;
  // The response of the acceptance was lost, or another tab accepted the update: there is no form any more.
  useEffect(() => {
    if (!isLeft) return;
    setEntered({ versionId: null, values: UNCHANGED });
    notifications.show({ message: 'What you entered for the update is not saved: see the settings' });
    onUnsaved({ ...entered, failure: GONE });
  }, [isLeft, entered, onUnsaved]);
  if (!pendingUpdate) return null;
  const { versionId } = pendingUpdate;
  // The section stays when the user declines the update and looks at it again, so that the focus stays in it.
  return (
    <section aria-label="Update">
      {declined === versionId ? (
        <Group gap="xs">
          <Text size="sm" c="dimmed">
            {`${describeVersion(pendingUpdate)} ${describeReason(pendingUpdate, installation)}, and you have declined it. It begins by itself if nothing is left to ask for; to stay on this version, pin it. The next version asks again.`}
          </Text>
          <Button size="compact-xs" variant="default" onClick={() => decline(null)}>
            Look at it again
          </Button>
        </Group>
      ) : (
        <ConsentCard
          installation={installation}
          pending={pendingUpdate}
          entered={entered}
          setEntered={setEntered}
          setIsAccepting={setIsAccepting}
          onUnsaved={onUnsaved}
          onDecline={() => decline(versionId)}
        />
      )}
    </section>
  );
}

function ConsentCard(props: ConsentProps) {
  const { installation, pending, entered } = props;
  /**
   * The version that the user reads. Another one that takes its place is shown only when the user asks for it: the author chooses
   * the time of a publish, and a click or key press that was meant for this version must not consent to that one.
   */
  const [reviewed, setReviewed] = useState(pending);
  return (
    <Card withBorder className="part consent">
      <Group wrap="nowrap" align="flex-start" gap="md">
        <Box component="span" className="tile" data-tone="fair" visibleFrom="sm">
          <IconShieldQuestion size={18} stroke={1.8} />
        </Box>
        <Stack gap="md" flex={1} miw={0}>
          {/* The key: nothing of another version may stay, also if the browser's translation has replaced the text. */}
          <div key={`title ${pending.versionId}`}>
            <Title order={2}>{`${describeVersion(pending)} ${describeReason(pending, installation)}`}</Title>
            <Text size="sm" c="dimmed">
              {`${installation.currentSemVer ?? 'What you have'} keeps running until you decide.`}
            </Text>
          </div>
          <UnsavedGuard isUnsaved={isChanged(entered.values)}>
            What you typed for the update is not saved, and is lost if you leave.
          </UnsavedGuard>
          {reviewed.versionId === pending.versionId ? (
            <ConsentForm key={pending.versionId} {...props} />
          ) : (
            <Alert
              key={pending.versionId}
              color="yellow"
              title={`${pending.semVer ?? 'Another draft'} took the place of ${reviewed.semVer ?? 'the draft'}`}
            >
              <Text size="sm" mb="xs">
                Read what it asks for before you allow it.
              </Text>
              <Button variant="default" onClick={() => setReviewed(pending)}>
                {`Review ${pending.semVer ?? 'the draft'}`}
              </Button>
            </Alert>
          )}
        </Stack>
      </Group>
    </Card>
  );
}

const describeVersion = ({ semVer }: Pending): string => semVer ?? 'The draft';

/** What the user typed that the update asks for. */
interface Entered {
  /** The version that was shown. Null: nothing was typed. */
  readonly versionId: string | null;
  readonly values: FormValues;
}

interface ConsentProps {
  readonly installation: Installation;
  readonly pending: Pending;
  readonly entered: Entered;
  readonly setEntered: (entered: Entered) => void;
  /** Called with true until an acceptance is over, which saves what was typed. */
  readonly setIsAccepting: (isAccepting: boolean) => void;
  readonly onUnsaved: (unsaved: UnsavedValues) => void;
  readonly onDecline: () => void;
}

function ConsentForm(props: ConsentProps) {
  const { installation, pending, entered, setEntered, setIsAccepting, onUnsaved, onDecline } = props;
  const { id } = installation;
  const { versionId, semVer } = pending;
  /** What the version asks for and ends. Both may change while it is shown: the plugin may become required elsewhere. */
  const requested = JSON.stringify([pending, listEndingChecks(pending, installation)]);
  /** What was requested when the user allowed it. */
  const [allowed, setAllowed] = useState<string | null>(null);
  const isAllowed = allowed === requested;
  const isOther = entered.versionId !== null && entered.versionId !== versionId;
  // Another version may use a secret in other ways.
  const filled = isOther ? { ...entered.values, secrets: {} } : entered.values;
  const setFilled = (values: FormValues) => setEntered({ versionId, values });
  const changes = useUpdateChanges({ installationId: id, versionId });
  const fields = changes.data?.fields;
  const accept = useAction<void, boolean>(
    async () => {
      setIsAccepting(true);
      try {
        await acceptUpdate(id, versionId);
        const values = fields ? pickFields(fields, filled) : UNCHANGED;
        const refusal = await saveConfiguration({ id, versionId, settings: {} }, values).then(
          () => null,
          (error: unknown) => (fields ? labelRefusal(error, fields) : error),
        );
        setEntered({ versionId: null, values: UNCHANGED });
        if (refusal !== null) {
          // An accepted update has no form any more.
          const failure = `The update is accepted, but what you entered for it is not saved. ${getErrorMessage(refusal)}`;
          onUnsaved({ values, versionId, failure });
        }
        return refusal === null;
      } finally {
        setIsAccepting(false);
      }
    },
    (isSaved) =>
      isSaved
        ? 'Accepted: the new version runs when it has started and answered'
        : 'Accepted, but what you entered for it is not saved: see the settings',
  );
  const hasEndingChecks = listEndingChecks(pending, installation).length > 0;
  return (
    <ActionForm
      action={accept}
      onSubmit={() => {
        // A password manager can submit a form although its button is disabled.
        if (isAllowed) accept.mutate();
      }}
    >
      <Stack gap="md">
        <Difference pending={pending} installation={installation} />
        {fields && fields.settings.length + fields.secrets.length > 0 ? (
          <Side sign="added" title="It asks you for">
            {isOther && hasSecrets(entered.values) ? (
              <Text size="sm" mb="xs" role="status">
                {`${semVer ?? 'Another draft'} took the place of the version for which you entered secrets, and may use them in other ways. Review it, then enter them again.`}
              </Text>
            ) : null}
            <FieldInputs fields={fields} filled={filled} setFilled={setFilled} stored={NOTHING_STORED} />
          </Side>
        ) : null}
        <UpdateChanges installationId={id} versionId={versionId} />
        <Checkbox
          label={`I allow this plugin what is listed above${hasEndingChecks ? ', and accept that its checks end' : ''}`}
          checked={isAllowed}
          // The comparison is part of what the user allows. If it cannot be loaded, the user sees why.
          disabled={changes.isPending}
          onChange={(event) => setAllowed(event.currentTarget.checked ? requested : null)}
        />
        <Group gap="xs">
          <Button type="submit" disabled={!isAllowed} loading={accept.isPending}>
            {`Update to ${semVer ?? 'the draft'}`}
          </Button>
          <Button variant="default" onClick={onDecline}>
            Not this version
          </Button>
        </Group>
      </Stack>
    </ActionForm>
  );
}

/** @throws the error of the request, if the update is not accepted: its response may be lost although it is */
async function acceptUpdate(id: string, versionId: string): Promise<void> {
  const params = { path: { id } };
  try {
    await rest.POST('/installations/{id}/accept-update', { params, body: { versionId } });
  } catch (error) {
    if (!(error instanceof UnreachableError)) throw error;
    const now = await readBody(rest.GET('/installations/{id}', { params })).catch(() => null);
    if (now?.currentVersionId !== versionId && now?.updateUnderWay?.versionId !== versionId) throw error;
  }
}

type Required = Pick<Installation, 'required'>;

/** Says why an update needs consent. The author cannot hide a check that ends behind a request for more access. */
export function describeReason(pending: Pending, installation: Required): string {
  const reasons = [
    ...describeRequest(pending),
    ...(listEndingChecks(pending, installation).length > 0 ? ['drops a hook of a plugin that you require'] : []),
  ];
  return reasons.join(' and ') || 'waits for your consent';
}

function describeRequest({ added, missing }: Pending): string[] {
  if (added.length > 0) return ['asks for more access'];
  return missing.length > 0 ? ['asks for new settings'] : [];
}

interface DifferenceProps {
  readonly pending: Pending;
  readonly installation: Installation;
}

function Difference({ pending, installation }: DifferenceProps) {
  const ending = listEndingChecks(pending, installation);
  const removed = pending.removed.filter((capability) => !ending.includes(capability));
  // In a rolling upgrade, an API of the former release may answer, which does not send it.
  const { narrowed = [] } = pending;
  const pick = (capabilities: readonly string[]) =>
    installation.reach.filter(({ capability }) => capabilities.includes(capability));
  return (
    <>
      {ending.length > 0 ? (
        <Side sign="ending" title="Checks that end">
          <Text size="sm" mb="xs">
            You require this plugin, but with this version, messages and turns continue without these:
          </Text>
          <ReachList reach={pick(ending)} />
        </Side>
      ) : null}
      <Side sign="added" title="New access">
        <ReachList reach={pick(pending.added)} none="No new access." />
      </Side>
      {removed.length > 0 ? (
        <Side sign="removed" title="Removed access">
          <ReachList reach={pick(removed)} />
        </Side>
      ) : null}
      {narrowed.length > 0 ? (
        <Side sign="kept" title="Kept access">
          <Text size="sm" mb="xs">
            Of what is removed, the plugin keeps this:
          </Text>
          <ReachList reach={pick(narrowed)} />
        </Side>
      ) : null}
    </>
  );
}

const SIGN_ICONS = { added: IconPlus, removed: IconMinus, kept: IconCheck, ending: IconAlertTriangle } as const;

interface Props {
  readonly sign: keyof typeof SIGN_ICONS;
  readonly title: string;
  readonly children: ReactNode;
}

function Side({ sign, title, children }: Props) {
  const Icon = SIGN_ICONS[sign];
  return (
    <div className="difference" data-sign={sign}>
      <Group gap={6} mb="xs">
        <Icon size={15} stroke={2.4} />
        <Title order={3}>{title}</Title>
      </Group>
      {children}
    </div>
  );
}
