/** Asks for consent to an update: lists added and removed access and accepts exactly that version. */
import { Button, Card, Group, Stack, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { type ReactNode, useEffect, useState } from 'react';
import { ReachList } from '../catalog/reach-list.tsx';
import type { Reach } from '../catalog/risks.ts';
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
import { IconMinus, IconPlus, IconShieldQuestion } from '../style/icons.tsx';
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
  const { versionId, semVer } = pendingUpdate;
  const name = semVer ?? 'The draft';
  if (declined === versionId) {
    return (
      <Group gap="xs">
        <Text size="sm" c="dimmed">
          {name} {describeReason(pendingUpdate)}, and you have declined it. It begins by itself if nothing is left to
          ask for; to stay on this version, pin it. The next version asks again.
        </Text>
        <Button size="compact-xs" variant="default" onClick={() => decline(null)}>
          Look at it again
        </Button>
      </Group>
    );
  }
  return (
    <Card withBorder component="section" aria-label="Update" className="part consent">
      <Group wrap="nowrap" align="flex-start" gap="md">
        <span className="tile" data-tone="fair">
          <IconShieldQuestion size={18} stroke={1.8} />
        </span>
        <Stack gap="md" flex={1} miw={0}>
          <div>
            <Title order={2}>
              {name} {describeReason(pendingUpdate)}
            </Title>
            <Text size="sm" c="dimmed">
              {installation.currentSemVer ?? 'What you have'} keeps running until you decide.
            </Text>
          </div>
          <UnsavedGuard isUnsaved={isChanged(entered.values)}>
            What you typed for the update is not saved, and is lost if you leave.
          </UnsavedGuard>
          <ConsentForm
            key={versionId}
            installation={installation}
            pending={pendingUpdate}
            entered={entered}
            setEntered={setEntered}
            setIsAccepting={setIsAccepting}
            onUnsaved={onUnsaved}
            onDecline={() => decline(versionId)}
          />
        </Stack>
      </Group>
    </Card>
  );
}

/** What the user typed that the update asks for. */
interface Entered {
  /** The version that was shown. Null: nothing was typed. */
  readonly versionId: string | null;
  readonly values: FormValues;
}

interface ConsentFormProps {
  readonly installation: Installation;
  readonly pending: Pending;
  readonly entered: Entered;
  readonly setEntered: (entered: Entered) => void;
  /** Called with true until an acceptance is over, which saves what was typed. */
  readonly setIsAccepting: (isAccepting: boolean) => void;
  readonly onUnsaved: (unsaved: UnsavedValues) => void;
  readonly onDecline: () => void;
}

function ConsentForm(props: ConsentFormProps) {
  const { installation, pending, entered, setEntered, setIsAccepting, onUnsaved, onDecline } = props;
  const { id, reach } = installation;
  const { versionId, semVer } = pending;
  const isOther = entered.versionId !== null && entered.versionId !== versionId;
  // Another version may use a secret in other ways.
  const filled = isOther ? { ...entered.values, secrets: {} } : entered.values;
  const setFilled = (values: FormValues) => setEntered({ versionId, values });
  const fields = useUpdateChanges({ installationId: id, versionId }).data?.fields;
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
  return (
    <ActionForm action={accept} onSubmit={() => accept.mutate()}>
      <Stack gap="md">
        <Difference pending={pending} reach={reach} />
        {fields && fields.settings.length + fields.secrets.length > 0 ? (
          <Side sign="added" title="It asks you for">
            {isOther && hasSecrets(entered.values) ? (
              <Text size="sm" mb="xs" role="status">
                {semVer ?? 'Another draft'} took the place of the version for which you entered secrets, and may use
                them in other ways. Review it, then enter them again.
              </Text>
            ) : null}
            <FieldInputs fields={fields} filled={filled} setFilled={setFilled} stored={NOTHING_STORED} />
          </Side>
        ) : null}
        <UpdateChanges installationId={id} versionId={versionId} />
        <Group gap="xs">
          <Button type="submit" loading={accept.isPending}>
            Allow this and update to {semVer ?? 'the draft'}
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

/** Without new access, consent is needed for new configuration, or because the account requires the plugin. */
export function describeReason({ added, missing }: Pending): string {
  if (added.length > 0) return 'asks for more access';
  return missing.length > 0 ? 'asks for new settings' : 'drops a hook of a plugin that you require';
}

function Difference({ pending: { added, removed }, reach }: { readonly pending: Pending; readonly reach: Reach }) {
  const sentences = (capabilities: readonly string[]) =>
    reach.filter(({ capability }) => capabilities.includes(capability));
  return (
    <>
      <Side sign="added" title="New access">
        <ReachList reach={sentences(added)} none="No new access." />
      </Side>
      {removed.length > 0 ? (
        <Side sign="removed" title="Removed access">
          <ReachList reach={sentences(removed)} />
        </Side>
      ) : null}
    </>
  );
}

interface Props {
  readonly sign: 'added' | 'removed';
  readonly title: string;
  readonly children: ReactNode;
}

function Side({ sign, title, children }: Props) {
  const Icon = sign === 'added' ? IconPlus : IconMinus;
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
