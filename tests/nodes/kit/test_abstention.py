"""Abstentions, and answers that look like one."""

import time

import pytest

from nodes.kit.abstention import is_abstention

ABSTENTIONS = """
None
none.
No answer
No answer.
Not enough information
Insufficient information
Insufficient information.
Not answerable based on the passages
Not Answerable
not_answerable
NotAnswerable
Unanswerable.
"Not Answerable"
**Not Answerable**
N/A
n/a.
Unknown
(unknown)
UNKNOWN
null
I don't know
I don’t know.
I do not know the answer.
I don't know based on the passages.
I don't know who directed the film.
Don't know
Cannot be determined
Cannot be determined from the evidence.
Can't be determined
It cannot be determined from the passages.
The answer cannot be determined from the given passages.
The answer can't be found in the documents
Could not be determined
Not specified
Not specified in the passages
Not mentioned
not mentioned in the passage
Not provided.
Not provided in the context
Not stated
Not given
Not available
Not found
Not found in the passages
Not known
not applicable
The passages do not contain the answer.
The passages don't mention her mother.
The passage does not say.
The provided passages do not contain information about this.
The given context does not specify the date
The documents do not provide enough information to answer the question.
The evidence is insufficient
The evidence does not determine it.
Insufficient evidence
Insufficient data to answer
There is not enough information to answer the question
There is insufficient information in the passages
There is no information about this.
There isn't enough information
No information
No information available
No information provided
No information is given in the passages about her birth
No relevant information found.
No relevant passages found
Information not available
Information not provided in the passages
The information is not available
The answer is not provided in the passages.
The answer is not mentioned.
Her place of birth is not mentioned in the passages.
The director's mother is not specified in the provided context.
I don't know. The passages are about other films.
Not Answerable. The passages do not mention the director.
The passages do not mention her mother. Therefore, the question cannot be answered.
The passages do not say where Mr. Lee was born.
Unable to determine
Unable to answer based on the passages
I am unable to determine the answer.
I cannot determine this from the passages.
I can't tell
Cannot tell
cannot say
It is impossible to say from the passages
Impossible to determine
It is not possible to determine the answer
None of the passages mention it.
None of the documents contain the answer
Unclear
It is unclear from the passages
It is unknown
The answer is unknown
Answer not found
Answer unknown
Undetermined
not sure
No idea
Not clear from the passages
Sorry, I don't know.
I'm sorry, but the passages do not contain the answer.
Unfortunately, the passages do not say.
Unknown based on the passages
Answer: None
No answer found
No answer found in the passages
There is no answer in the passages.
Not enough evidence
Not enough info.
Not enough information in the passages to answer this question
No mention of this in the passages
not answerable from the evidence
The question cannot be answered from the passages
This question cannot be answered.
This is not answerable
Question not answerable
?
...
-
,
---
.
I did not find the answer in the passages
The context lacks this information
The text gives no answer
Lack of information
Insufficient context
Cannot answer
Cannot answer the question based on the given passages.
Cannot determine
Not determinable
not determined
Not explicitly stated
Not explicitly mentioned in the passages
It is not stated.
not yet known
There is no mention of her mother in the passages.
The information provided is insufficient to answer
No data
No data available
""".strip().splitlines()
ANSWERS = """
No
no.
yes
No one
Nobody
Nothing
"Unknown"
“None”
Unknown Pleasures
The Unknown
Tomb of the Unknown Soldier
Unknown Soldier
None but the Lonely Heart
Nonesuch Records
I Don't Know How to Love Him
I Don't Know What You Want but I Can't Give It Any More
I Can't Tell You Why
Can't Be Tamed
No Country for Old Men
Not Without My Daughter
Not Wanted
No, No, No
No Answer Needed at Midnight
No I.D.
NO
Norway
Unknown to No One
Sorry
Sorry, Wrong Number
Sorry Seems to Be the Hardest Word
No Orleans
Not guilty
not divorced
He was not mentioned in dispatches until 1916
Information Society
Insufficient Funds
Data
Context
Evidence
The Answer
The Information
Answer Me
Lost and Found
Missing
The Passage
Passage to India
Not Yet
An Unknown Woman
the unknown soldier of World War I
Zero
0
0 goals
none of the above
The passages do not mention her mother. They say that her father is John Lee.
The documents do not state the year. The film was directed by Ann Lee.
I don't know. Perhaps Oslo.
Oslo
Oslo, but the passages do not say when
I don't know, but it is probably Oslo.
He does not know
The Beatles, who did not provide an answer
Enough
Enough Said
Not Enough
Never
Null Island
Nil
Uncertain, Texas
Unclear Age
Can't Stop the Feeling!
Cannot Buy My Soul
Na
NA
!!!
No Such Thing
No Evidence of Disease
It
It Is Not Known Who Threw the Stone
Available Light
The documents were not found until 1945 in an attic
Data Does Not Lie
Unfortunately Yours
Evidence Does Not Die Tonight Ever
Text Me
Fact
Not Fade Away
In the Absence of Evidence
Unanswered
The Unanswered Question
1,240
He died of unknown causes
unknown causes
an unknown illness
no children
$
+
-5
.hack
No gold medals
It was never found
cannot swim
""".strip().splitlines()


@pytest.mark.parametrize("text", [*ABSTENTIONS, "", "  ", "None\n", "The passages\ndo not say."])
def test_a_text_that_says_that_there_is_no_answer_is_an_abstention(text):
    assert is_abstention(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_a_name_a_title_or_a_fact_is_an_answer(text):
    assert not is_abstention(text)


@pytest.mark.parametrize("text", ["I Don't Know Where", "I Don't Know Where the River of the Moon Is Going To End"])
def test_a_title_has_five_to_twelve_words(text):
    """Shorter and longer ones are read as what they say."""
    assert is_abstention(text)
    assert not is_abstention(" ".join([*text.split(), "Alice"][:12]))


@pytest.mark.parametrize("text", ['"Unknown', 'Unknown"'])
def test_a_quotation_has_two_marks(text):
    assert is_abstention(text)
    assert not is_abstention(f'"{text.strip(chr(34))}"')


@pytest.mark.parametrize("text", ["Unknown", "none.", "Null", "(unclear)"])
def test_a_word_that_may_be_an_answer_is_one_where_abstaining_is_off(text):
    assert is_abstention(text)
    assert not is_abstention(text, words=False)


@pytest.mark.parametrize("text", ["Not Answerable", "I don't know.", "", "The passages do not say."])
def test_a_plain_abstention_stays_one_where_abstaining_is_off(text):
    assert is_abstention(text, words=False)


@pytest.mark.parametrize(
    "text", ["the " * 800, "no information of " * 200, "of " * 700 + "passage", "it is not " * 300]
)
def test_a_long_text_is_read_in_no_time(text):
    began = time.perf_counter()
    is_abstention(text)
    assert time.perf_counter() - began < 0.5
