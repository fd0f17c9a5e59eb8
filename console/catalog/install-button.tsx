/** The install dialog: version policy, configuration and consent. */
import { Alert, Button, Card, Checkbox, Group, NativeSelect, Stack, Text, Title } from '@mantine/core';
import { type RefObject, useRef, useState } from 'react';
import { labelRefusal } from '../configuration/field-errors.ts';
import { FieldInputs } from '../configuration/field-inputs.tsx';
import {
  type Fields,
  type FormValues,
  isChanged,
  listMissing,
  NOTHING_STORED,
  pickFields,
  UNCHANGED,
} from '../configuration/form-values.ts';
import { isForOtherVersion, saveConfiguration } from '../configuration/save-configuration.ts';
import { hasHooks, RequiredCheckbox, suggestsRequired } from '../installations/required-checkbox.tsx';
import { handOverValues, type UnsavedValues } from '../installations/typed-values.ts';
import { readBody, rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { getErrorMessage, Problem, UnreachableError } from '../rest/problem.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { UnsavedGuard } from '../shell/unsaved-guard.tsx';
import { useLeaving } from '../shell/use-leaving.ts';
import { IconDownload } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import type { Entry } from './entry-page.tsx';
import { ReachList, type Tools } from './reach-list.tsx';

interface InstallButtonProps {
  readonly entry: Entry;
  readonly isOpen: boolean;
  readonly onOpen: () => void;
  readonly onClose: () => void;
}

export function InstallButton({ entry, isOpen, onOpen, onClose }: InstallButtonProps) {
  // Here, so that the dialog has it again after it was closed.
  const [filled, setFilled] = useState(UNCHANGED);
  if (entry.latest === null) return null;
  return (
    <>
      <Button
        size="md"
        onClick={onOpen}
        disabled={entry.blockedReason !== null}
        leftSection={<IconDownload size={18} stroke={1.8} />}
      >
        Install
      </Button>
      <Dialog title={`Install ${escapeText(entry.displayName)}`} opened={isOpen} onClose={onClose}>
        <InstallForm entry={entry} filled={filled} setFilled={setFilled} onClose={onClose} />
      </Dialog>
      <UnsavedGuard isUnsaved={isChanged(filled)}>
        What you typed for the installation is not saved, and is lost if you leave.
      </UnsavedGuard>
    </>
  );
}

interface InstallFormProps {
  readonly entry: Entry;
  readonly filled: FormValues;
  readonly setFilled: (filled: FormValues) => void;
  readonly onClose: () => void;
}

function InstallForm({ entry, filled, setFilled, onClose }: InstallFormProps) {
  /** The version to stay on. Null: follow the newest. */
  const [pinned, setPinned] = useState<Version | null>(null);
  /** Undefined, too, if the chosen version is no longer offered: it was yanked, or the list is full of newer ones. */
  const offeredPin = entry.versions.find(({ versionId }) => versionId === pinned?.versionId);
  const lost = offeredPin === undefined ? pinned : null;
  const offered: Asked = offeredPin ?? pickNewest(entry);
  /** The version that the user consented to. Choosing another version asks again. */
  const [consented, setConsented] = useState<string | null>(null);
  /** The user's choice. Null: what is suggested for the version. */
  const [chosen, setChosen] = useState<boolean | null>(null);
  const required = chosen ?? suggestsRequired(offered.reach);
  const isConsented = consented !== null && consented === offered.versionId;
  const install = useInstall(entry, {
    pinnedVersionId: offeredPin?.versionId ?? null,
    filled: pickFields(offered.configuration, filled),
    required,
    fields: offered.configuration,
  });
  const choose = (chosenId: string) => {
    setPinned(entry.versions.find(({ versionId }) => versionId === chosenId) ?? null);
    setConsented(null);
  };
  return (
    <ActionForm
      action={install}
      onSubmit={() => {
        // A password manager can submit a form although its button is disabled.
        if (isConsented) install.mutate();
      }}
    >
      <Stack>
        <Text size="sm" c="dimmed" className="foreign">
          By {escapeText(entry.author.name)}, {entry.tier}
        </Text>
        <NativeSelect
          label="Versions"
          description="A new version that requests more access always needs your consent."
          value={offeredPin?.versionId ?? ''}
          onChange={(event) => choose(event.currentTarget.value)}
          data={[
            { value: '', label: `Follow the newest (now ${entry.latest?.semVer})` },
            ...entry.versions.map(({ versionId, semVer }) => ({ value: versionId, label: `Stay on ${semVer}` })),
          ]}
        />
        <Card withBorder bg="var(--sunken)">
          <Title order={3} fz="md" mb="sm">
            What you allow
          </Title>
          <ReachList reach={offered.reach} none="This plugin requests no access." tools={offered.tools ?? []} />
        </Card>
        <FieldInputs fields={offered.configuration} filled={filled} setFilled={setFilled} stored={NOTHING_STORED} />
        {hasHooks(offered.reach) ? <RequiredCheckbox required={required} onChange={setChosen} /> : null}
        {(consented !== null || lost !== null) && !isConsented ? <OfferChange entry={entry} lost={lost} /> : null}
        <Checkbox
          label="I allow this plugin what is listed above"
          checked={isConsented}
          onChange={(event) => setConsented(event.currentTarget.checked ? offered.versionId : null)}
        />
        <MissingNote fields={offered.configuration} filled={filled} isStopping={required && hasHooks(offered.reach)} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!isConsented} loading={install.isPending}>
            Install
          </Button>
        </Group>
      </Stack>
    </ActionForm>
  );
}

interface OfferChangeProps {
  readonly entry: Entry;
  /** The version that the user had chosen. Null: the user follows the newest one. */
  readonly lost: Version | null;
}

function OfferChange({ entry: { latest }, lost }: OfferChangeProps) {
  const newest = `The newest version is ${latest?.semVer} now`;
  return (
    <Alert color="yellow" role="status" title={lost === null ? newest : `${lost.semVer} is no longer offered`}>
      {`${lost === null ? '' : `${newest}. `}The list above shows the access of that version. Read it before you allow it.`}
    </Alert>
  );
}

interface MissingNoteProps {
  readonly fields: Fields;
  readonly filled: FormValues;
  /** Whether messages and turns stop while the plugin does not run. */
  readonly isStopping: boolean;
}

function MissingNote({ fields, filled, isStopping }: MissingNoteProps) {
  const { settings, secrets } = listMissing(fields, filled, NOTHING_STORED);
  const labels = [...settings, ...secrets].map(({ label }) => label);
  if (labels.length === 0) return null;
  return (
    <Text size="sm" className="foreign">
      {`You can install it now, but it runs only with ${escapeText(labels.join(', '))}. Fill in what is missing here, or later in its settings.${isStopping ? ' Until then, the messages and turns that it must check are stopped.' : ''}`}
    </Text>
  );
}

type Version = Entry['versions'][number];
type Asked = Pick<Version, 'reach' | 'configuration'> & {
  readonly versionId: string | null;
  /** Only the newest version's are known. */
  readonly tools?: Tools;
};

const pickNewest = ({ latest, reach, configuration, discovered }: Entry): Asked => ({
  versionId: latest?.versionId ?? null,
  tools: discovered?.tools ?? [],
  reach,
  configuration,
});

interface Choice {
  /** The version to stay on. Null: follow the newest. */
  readonly pinnedVersionId: string | null;
  readonly filled: FormValues;
  readonly required: boolean;
  readonly fields: Fields;
}

function useInstall(entry: Entry, choice: Choice) {
  const startLeaving = useLeaving();
  const isUnanswered = useRef(false);
  return useAction<void, string>(
    async () => {
      const leaveTo = startLeaving();
      const body = { slug: entry.slug, required: choice.required, ...pickPolicy(entry, choice.pinnedVersionId) };
      const made = await readBody(rest.POST('/installations', { body })).catch((error: unknown) =>
        findMade(entry.slug, error, isUnanswered),
      );
      const { done, unsaved } = await saveTyped(made, choice, entry.latest?.versionId ?? null);
      if (unsaved !== null) handOverValues(made.id, unsaved);
      const search = unsaved === null ? {} : ({ tab: 'settings' } as const);
      await leaveTo({ to: '/installations/$id', params: { id: made.id }, search, ignoreBlocker: true });
      return done;
    },
    (done) => done,
  );
}

interface Result {
  /** What was done, for the user. */
  readonly done: string;
  /** Null: everything is saved. */
  readonly unsaved: UnsavedValues | null;
}

/**
 * Saves what the user typed to an installation that runs as the user chose here: another tab may have made or changed it.
 *
 * @param newestId the newest version that was shown
 */
async function saveTyped(made: Installation, choice: Choice, newestId: string | null): Promise<Result> {
  const { pinnedVersionId, required, filled: values, fields } = choice;
  const versionId = pinnedVersionId ?? newestId;
  const versionPolicy = pinnedVersionId === null ? 'Latest' : 'Pinned';
  const isPolicyChosen = made.versionPolicy === versionPolicy && made.pinnedVersionId === pinnedVersionId;
  if (!isPolicyChosen || made.required !== required) {
    const done = 'It was already installed, with other choices than yours';
    const failure = `${done}: check which version it runs and whether you require it.`;
    return { done, unsaved: isChanged(values) ? { values, versionId, failure } : null };
  }
  try {
    await saveConfiguration({ id: made.id, versionId, settings: made.settings }, values);
    return { done: 'Installed', unsaved: null };
  } catch (error) {
    const failure = `It is installed, but its settings are not saved. ${getErrorMessage(labelRefusal(error, fields))}`;
    // The user, who reads in the refusal which version runs, may save the values for it.
    const readId = isForOtherVersion(error) ? made.currentVersionId : versionId;
    const done = 'Installed, but its settings are not saved';
    return { done, unsaved: { values, versionId: readId, failure } };
  }
}

/**
 * Finds what a request has installed whose response was lost.
 *
 * @param error of the last request
 * @param isUnanswered whether one of the requests so far had no response
 * @throws the error, if nothing is installed
 */
async function findMade(slug: string, error: unknown, isUnanswered: RefObject<boolean>): Promise<Installation> {
  if (error instanceof UnreachableError) isUnanswered.current = true;
  else if (!isUnanswered.current || !(error instanceof Problem) || error.code !== 'already_installed') throw error;
  try {
    const { installationId } = await readBody(rest.GET('/marketplace/{slug}', { params: { path: { slug } } }));
    if (installationId === null) throw error;
    return await readBody(rest.GET('/installations/{id}', { params: { path: { id: installationId } } }));
  } catch {
    throw error;
  }
}

/** Names the version that was shown, so that a later one is not installed without consent. */
function pickPolicy({ latest }: Entry, pinnedVersionId: string | null) {
  if (pinnedVersionId !== null) return { versionPolicy: 'Pinned' as const, pinnedVersionId };
  return { versionPolicy: 'Latest' as const, ...(latest ? { versionId: latest.versionId } : {}) };
}
